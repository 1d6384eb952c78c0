// A body that a test feeds, and a handler that a test writes in place.
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

/// What a test and its FedBody share.
struct Feed {
  explicit Feed(Loop& loop) : news(loop) {}
  void push(std::string bytes) {
    waiting.push_back(std::move(bytes));
    news.raise();
  }
  void end() {
    ended = true;
    news.raise();
  }
  void fail(Error error) {
    failure = std::move(error);
    news.raise();
  }

  Signal news;
  std::deque<std::string> waiting;
  std::optional<std::uint64_t> length;
  std::optional<Error> failure;
  Fields trailers;
  bool ended = false;
  bool dropped = false;
  int reads = 0;
};

class FedBody final : public Body {
 public:
  /// `beside` lives as long as the body.
  explicit FedBody(std::shared_ptr<Feed> feed, Task<void> beside = {})
      : feed_(std::move(feed)), beside_(std::move(beside)) {}
  ~FedBody() override { feed_->dropped = true; }

  Task<Result<Chunk>> read() override {
    ++feed_->reads;
    while (true) {
      if (!feed_->waiting.empty()) {
        current_ = std::move(feed_->waiting.front());
        feed_->waiting.pop_front();
        co_return Chunk{.bytes = current_};
      }
      if (feed_->failure) co_return *feed_->failure;
      if (feed_->ended) {
        const bool any = feed_->trailers.size() > 0;
        co_return Chunk{.last = true, .trailers = any ? &feed_->trailers : nullptr};
      }
      co_await feed_->news.wait();
    }
  }
  std::optional<std::uint64_t> length() const override { return feed_->length; }

 private:
  std::shared_ptr<Feed> feed_;
  Task<void> beside_;
  std::string current_;
};

/// Answers as the test says. What it is given must outlive it.
class Answering final : public Handler {
 public:
  using Answer = std::function<Task<Result<Response>>(Request&)>;
  explicit Answering(Answer answer) : answer_(std::move(answer)) {}
  Task<Result<Response>> handle(Request& request) override { return answer_(request); }

 private:
  Answer answer_;
};

/// Reads a body to its end: its bytes, or the error that ended it.
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
