// Requests that go to a backend as one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/batch_answer.h"
#include "evenkeel/inference/batch_body.h"

namespace evenkeel {

/// The inputs of several requests in one request to a backend, and the part of its answer that each
/// of them gets. When the last one has left, it is dropped, and the backend stops.
///
/// Thread: one worker's.
class RequestBatch {
 public:
  /// The most that an answer may be to be taken apart.
  static constexpr std::size_t max_answer_bytes = 8UL * 1024 * 1024;

  /// A request, until it leaves. What is pointed to lives as long.
  struct Member {
    Request* request = nullptr;  ///< null: it has left
    const BatchBody* body = nullptr;
    TokenWeight weight;
    Instant joined{};           ///< it began to wait for others
    Signal* settled = nullptr;  ///< is raised when the batch has its answer
  };

  /// `flight`: is dropped when the backend has answered. REQUIRES: there is a member.
  RequestBatch(Loop& loop, BatchApi api, std::vector<Member> members,
               std::shared_ptr<const void> flight);
  RequestBatch(const RequestBatch&) = delete;
  RequestBatch& operator=(const RequestBatch&) = delete;
  ~RequestBatch();

  /// What the backend gets.
  Request& request() { return request_; }
  /// The answer begins. Once.
  void start(Task<Result<Response>> answering) { run_ = receive(std::move(answering)); }

  /// True if the members must be sent one by one: the answer says of one of them, or cannot be
  /// taken apart. REQUIRES: the batch has its answer.
  bool must_split() const { return must_split_; }
  /// The answer to one member, which is independent of the batch. REQUIRES: the batch has its
  /// answer, and need not be split.
  Result<Response> answer_of(std::size_t member) const;
  /// The member takes no further part. Its request gets what became of the batch until then.
  void leave(std::size_t member);

 private:
  Task<void> receive(Task<Result<Response>> answering);
  void take_head(const Response& response);
  void end();
  void judge();
  void share_answer();

  Loop& loop_;
  const BatchApi api_;
  const Instant began_;
  std::shared_ptr<const void> flight_;
  std::vector<Member> members_;
  std::vector<BatchShare> shares_;  // of the members
  std::uint64_t total_tokens_ = 0;
  Request request_;
  Response head_;
  std::string bytes_;  // of an answer that is the same for all
  bool is_too_long_ = false;
  bool ended_ = false;
  bool must_split_ = false;
  std::optional<Error> error_;
  std::optional<BatchAnswer> answer_;
  Task<void> run_;  // dropped first
};

}  // namespace evenkeel
