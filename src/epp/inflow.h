// A body that comes in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "epp/messages.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The bytes of a body, from the messages that bring them until they are read.
class Inflow {
 public:
  /// `taken` is raised when bytes were read; it outlives this.
  Inflow(Loop& loop, Signal& taken) : arrived_(loop), taken_(taken) {}

  void add(std::string_view bytes) {
    if (failure_ || has_ended_) return;
    waiting_ += bytes;
    arrived_.raise();
  }
  /// No bytes follow.
  void end() {
    if (failure_) return;
    has_ended_ = true;
    arrived_.raise();
  }
  void end(const ext_proc::HeaderMap& trailers);
  /// Fails what is read once the bytes are that have come, unless the body has ended. What comes
  /// afterwards is dropped.
  void fail(Error error) {
    if (has_ended_ || failure_) return;
    failure_ = std::move(error);
    arrived_.raise();
  }

  bool has_ended() const { return has_ended_; }
  bool has_trailers() const { return has_trailers_; }
  /// Bytes that were not read yet.
  std::size_t waiting() const { return waiting_.size(); }
  Task<Result<Chunk>> read();

 private:
  bool is_ready() const { return !waiting_.empty() || has_ended_ || failure_; }
  Task<Result<Chunk>> wait();
  Result<Chunk> next();

  Signal arrived_;
  Signal& taken_;
  std::string waiting_;
  std::string current_;
  std::optional<Error> failure_;
  Fields trailers_;
  bool has_ended_ = false;
  bool has_trailers_ = false;
};

/// The body of a message whose bytes come so.
class InflowBody final : public Body {
 public:
  /// `count`: is raised by what was read. It and `inflow` outlive the body.
  InflowBody(Inflow& inflow, std::optional<std::uint64_t> length, std::uint64_t& count)
      : inflow_(inflow), length_(length), count_(count) {}

  Task<Result<Chunk>> read() override {
    auto next = inflow_.read();
    if (!next.ready()) return wait(std::move(next));
    return counted(next.take());
  }
  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next) {
    auto chunk = co_await next;
    co_return counted(std::move(chunk));
  }
  Result<Chunk> counted(Result<Chunk> chunk) {
    if (chunk) count_ += chunk->bytes.size();
    return chunk;
  }

  Inflow& inflow_;
  const std::optional<std::uint64_t> length_;
  std::uint64_t& count_;
};

}  // namespace evenkeel
