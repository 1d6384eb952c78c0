// A body that the test feeds, and a handler that the test writes in place.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The state that a test shares with its ScriptedBody.
struct BodyFeed {
  explicit BodyFeed(Loop& loop) : changed(loop) {}
  void push(std::string bytes) {
    pending.push_back(std::move(bytes));
    changed.raise();
  }
  void end() {
    ended = true;
    changed.raise();
  }
  void fail(Error error) {
    failure = std::move(error);
    changed.raise();
  }

  Signal changed;
  std::deque<std::string> pending;
  std::optional<std::uint64_t> length;
  std::optional<Error> failure;
  Fields trailers;
  bool ended = false;
  bool dropped = false;
  int reads = 0;
};

class ScriptedBody final : public Body {
 public:
  /// `beside` lives as long as the body.
  explicit ScriptedBody(std::shared_ptr<BodyFeed> feed, Task<void> companion = {})
      : feed_(std::move(feed)), companion_(std::move(companion)) {}
  ~ScriptedBody() override { feed_->dropped = true; }

  Task<Result<Chunk>> read() override {
    ++feed_->reads;
    while (true) {
      if (!feed_->pending.empty()) {
        current_ = std::move(feed_->pending.front());
        feed_->pending.pop_front();
        co_return Chunk{.bytes = current_};
      }
      if (feed_->failure) co_return *feed_->failure;
      if (feed_->ended) {
        const bool any = feed_->trailers.size() > 0;
        co_return Chunk{.last = true, .trailers = any ? &feed_->trailers : nullptr};
      }
      co_await feed_->changed.wait();
    }
  }
  std::optional<std::uint64_t> length() const override { return feed_->length; }

 private:
  std::shared_ptr<BodyFeed> feed_;
  Task<void> companion_;
  std::string current_;
};

/// Calls a function of the test, whose captures must outlive it.
class FunctionHandler final : public Handler {
 public:
  using Answer = std::function<Task<Result<Response>>(Request&)>;
  explicit FunctionHandler(Answer answer) : answer_(std::move(answer)) {}
  Task<Result<Response>> handle(Request& request) override { return answer_(request); }

 private:
  Answer answer_;
};

/// Reads a body to its end: its bytes and the error that ended it, if any.
struct Collected {
  std::string bytes;
  std::optional<Error> error;
  bool done = false;
  int chunks = 0;
  std::string trailers;  // "name: value\n" each
};

inline Task<void> collect(Body& body, Collected& into) {
  while (!into.done) {
    auto chunk = co_await body.read();
    if (!chunk) {
      into.error = chunk.error();
      into.done = true;
      continue;
    }
    ++into.chunks;
    into.bytes += chunk->bytes;
    into.done = chunk->last;
    if (chunk->trailers == nullptr) continue;
    for (const Field& field : *chunk->trailers) {
      into.trailers.append(field.name()).append(": ").append(field.value()).append("\n");
    }
  }
}

}  // namespace evenkeel
