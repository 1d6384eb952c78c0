// One answer that several requests read.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/pool/answer_cache.h"

namespace evenkeel {

/// The last bytes of an answer, in blocks that stay where they are.
class AnswerBytes {
 public:
  using BlockPtr = std::shared_ptr<ReadBuffer>;
  /// Bytes of one block, which they hold.
  struct Piece {
    BlockPtr block;
    std::string_view bytes;
  };

  void append(std::string_view bytes);
  /// Bytes from a position on, up to the end of a block. REQUIRES: begin() <= position <= end().
  Piece at(std::uint64_t position) const;
  /// Drops whole blocks from the front until no more than `bytes` and a block are left.
  void keep_last(std::uint64_t bytes);
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }

 private:
  static constexpr std::uint32_t block_bytes = Block::small;

  std::deque<BlockPtr> blocks_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

/// The answer to a request that it has a copy of, for all who ask the same. It is read as fast as
/// its fastest reader reads; those that join late first get what has passed. When the last reader
/// has left, it is dropped, and its backend stops. If a reader is so far behind that what it has
/// not read is no longer held, its response breaks off.
///
/// One of the readers pays: its request counts as the one that the backend got. It is the one that
/// came first of those that have not left.
///
/// Thread: one worker's.
class SharedAnswer : public std::enable_shared_from_this<SharedAnswer> {
 public:
  /// How much is held: the start of an answer that is longer is dropped, and no request joins it
  /// from then on.
  static constexpr std::uint64_t max_held_bytes = 8UL * 1024 * 1024;
  /// The same while memory is scarce.
  static constexpr std::uint64_t scarce_held_bytes = 64UL * 1024;

  class Reader;
  class Owner {
   public:
    virtual ~Owner() = default;
    /// True if requests need the memory more than what readers are behind with.
    virtual bool memory_is_scarce() const = 0;
    /// Is called once: no request may join any more.
    virtual void on_closed(SharedAnswer& answer) = 0;
  };

  /// `body`: of the request. REQUIRES: the owner outlives the answer.
  SharedAnswer(Loop& loop, Owner& owner, const AnswerKey& key, const Request& from,
               std::string body);
  SharedAnswer(const SharedAnswer&) = delete;
  SharedAnswer& operator=(const SharedAnswer&) = delete;
  ~SharedAnswer();

  const AnswerKey& key() const { return key_; }
  /// The priority of the request for which the answer began.
  Priority priority() const { return priority_; }
  /// What the backend gets.
  Request& request() { return request_; }
  /// The answer begins. Once.
  void start(Task<Result<Response>> answering) { run_ = generate(std::move(answering)); }

 private:
  class Change;

  Task<void> generate(Task<Result<Response>> answering);
  void take_head(Response& response);
  void append(std::string_view bytes);
  void announce();
  void close();
  void end();
  void leave(Reader& reader);
  void pay(RequestInfo& info) const;

  Loop& loop_;
  Owner& owner_;
  bool closed_ = false;  // no request joins
  const AnswerKey key_;
  const Priority priority_;
  Request request_;
  Response head_;
  bool has_head_ = false;
  bool ended_ = false;
  bool is_paid_ = false;
  std::optional<Error> error_;
  std::optional<std::uint64_t> length_;
  AnswerBytes bytes_;
  Signal demand_;
  WaiterList waiting_;
  std::list<Reader*> readers_;  // the first one pays
  BodyPtr body_;
  Task<void> run_;  // dropped first
};

/// What one request gets of a shared answer. REQUIRES: its `info` outlives it.
class SharedAnswer::Reader final : public Body {
 public:
  /// `joins`: it is not the request that the answer began for.
  Reader(std::shared_ptr<SharedAnswer> answer, RequestInfo& info, bool joins);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() override;

  /// The response, without a body: that is this object. Errors: those of the request.
  Task<Result<Response>> head();
  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override { return answer_->length_; }

 private:
  friend class SharedAnswer;

  std::optional<Result<Chunk>> take();
  Task<Result<Chunk>> wait();

  std::shared_ptr<SharedAnswer> answer_;
  RequestInfo& info_;
  const bool joins_;
  std::uint64_t position_ = 0;
  AnswerBytes::BlockPtr block_;  // of the last chunk
  std::list<Reader*>::iterator place_;
};

}  // namespace evenkeel
