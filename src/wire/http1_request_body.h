// Request bodies of HTTP/1, read from the client's connection as they are pulled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "body_rate.h"
#include "chunked.h"
#include "evenkeel/http/message.h"
#include "evenkeel/wire/frontend.h"
#include "http1_message.h"
#include "http1_transport.h"

namespace evenkeel {

/// The most that is discarded of a request body of known length to keep its connection.
inline constexpr std::uint64_t max_drained_body_bytes = 64 * 1024;

/// A request body, read from the connection as it is pulled.
class Http1RequestBody final : public Body {
 public:
  Http1RequestBody(Http1Transport& transport, const ListenerConfig& config,
                   const Http1MessageInfo& message, RequestInfo& info)
      : transport_(transport),
        config_(config),
        info_(info),
        chunked_(message.framing.kind == Framing::Kind::chunked),
        awaits_continue_(message.expects_continue),
        rate_(config),
        left_(message.framing.length),
        length_(message.framing.length) {}

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override {
    return chunked_ ? std::nullopt : std::optional(length_);
  }
  bool rewind() override;
  Block take_block() override;
  void commit(bool sent) override {
    if (sent && finished_) large_.release();
  }
  bool rewindable() const override {
    if (reads_ > 0) return reads_ == 1 && first_.last;
    return !chunked_ && !broken_ && transport_.in.end - transport_.in.begin >= left_;
  }

  /// True if every byte of the message was read; the next message begins here.
  bool finished() const { return finished_; }
  /// True if the connection can be kept after an early response, by discarding the rest of the
  /// body. Not if a client that expects 100 (Continue) may or may not send its body.
  bool drainable() const {
    return finished_ ||
           (!broken_ && !awaits_continue_ && (chunked_ || left_ <= max_drained_body_bytes));
  }
  /// Discards what is left: only the connection's next message counts, and reads fail at
  /// `deadline`, or when the connection is interrupted.
  void discard_until(Instant deadline) {
    deadline_ = deadline;
    discards_ = true;
  }

 private:
  std::optional<Result<Chunk>> take_buffered();
  std::optional<Result<Chunk>> take_large();
  Task<Result<Chunk>> read_more();
  bool continues_in_socket();
  void move_to_large();
  void need_large();
  Socket::Read fill();
  std::optional<Result<Chunk>> deliver(char* bytes, std::size_t size, std::uint32_t& begin);
  Result<Chunk> fail(Fault fault, std::string detail);

  Http1Transport& transport_;
  const ListenerConfig& config_;
  RequestInfo& info_;
  bool chunked_;
  bool awaits_continue_;
  bool finished_ = false;
  bool broken_ = false;
  bool replays_ = false;
  bool discards_ = false;
  std::uint32_t reads_ = 0;
  BodyRate rate_;
  std::uint64_t left_;
  std::uint64_t length_;
  std::uint64_t total_ = 0;
  Instant deadline_ = never;
  Chunk first_;                      // for `rewind`, if it was the whole body
  ReadBuffer large_;                 // after the body has outgrown the block of the head
  std::uint32_t lent_of_large_ = 0;  // bytes of it that are the last chunk
  ChunkedDecoder decoder_;
};

/// What a client sends after an upgrade: bytes without framing until the end of its sending.
class TunnelBody final : public Body {
 public:
  TunnelBody(Http1Transport& transport, RequestInfo& info) : transport_(transport), info_(info) {}
  Task<Result<Chunk>> read() override;
  bool rewind() override { return !begun_; }

 private:
  Http1Transport& transport_;
  RequestInfo& info_;
  bool begun_ = false;
  ReadBuffer buffer_;
};

}  // namespace evenkeel
