#include "proxy/held_answer.h"

#include <string>
#include <utility>

#include "evenkeel/base/deadline.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_bytes = 64 * 1024;
constexpr Duration max_time = std::chrono::milliseconds(100);

/// A body of which the first part was read already.
class ResumedBody final : public Body {
 public:
  ResumedBody(BodyPtr rest, std::string begun, Task<Result<Chunk>> pending)
      : rest_(std::move(rest)), begun_(std::move(begun)), pending_(std::move(pending)) {}

  Task<Result<Chunk>> read() override {
    if (!begun_.empty() && !delivered_) {
      delivered_ = true;
      return Result<Chunk>(Chunk{.bytes = begun_});
    }
    if (pending_.valid()) return std::move(pending_);
    return rest_->read();
  }
  std::optional<std::uint64_t> length() const override { return rest_->length(); }

 private:
  BodyPtr rest_;
  std::string begun_;
  Task<Result<Chunk>> pending_;  // a read of `rest_`: dropped before it
  bool delivered_ = false;
};

Response copy_without_body(const Response& response) {
  Response copy{.status = response.status, .declared_length = response.declared_length};
  copy.reason_phrase = copy.fields.keep(response.reason_phrase);
  for (const Field& field : response.fields) copy.fields.add_copy(field);
  return copy;
}

}  // namespace

Task<bool> detach_answer(Loop& loop, Response& response) {
  std::string bytes;
  const Instant deadline = loop.now() + max_time;
  bool ended = response.body == nullptr;
  while (!ended) {
    auto next = response.body->read();
    co_await UntilDoneOrDeadline(next, loop, deadline);
    const bool arrived = next.ready();
    auto chunk = arrived ? next.take() : Result<Chunk>(Chunk{});
    const bool goes_on = arrived && chunk && chunk->trailers == nullptr &&
                         bytes.size() + chunk->bytes.size() <= max_bytes;
    if (!goes_on) {
      if (arrived) next = Task<Result<Chunk>>(std::move(chunk));
      response.body = std::make_unique<ResumedBody>(std::move(response.body), std::move(bytes),
                                                    std::move(next));
      co_return false;
    }
    bytes += chunk->bytes;
    ended = chunk->last;
  }
  Response copy = copy_without_body(response);
  const bool bodiless = bytes.empty() && copy.declared_length.has_value();
  if (!bodiless && response.body != nullptr) copy.body = make_body(std::move(bytes));
  response.body.reset();  // its fields were copied
  response = std::move(copy);
  co_return true;
}

}  // namespace evenkeel
