// How the body of a backend's response is awaited, whatever the protocol.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "backend_exchange.h"
#include "evenkeel/wire/link_body.h"

namespace evenkeel {

/// How much longer the reader of a response, that is, its client, has held up the backend than it
/// has waited for it. What is in flight when the backend ends comes with short waits.
class ReaderDelay {
 public:
  explicit ReaderDelay(Instant now) : since_(now) {}
  /// The reader wants the next bytes.
  void asked(Instant now) {
    delay_ = std::min(delay_ + (now - since_), max_delay);
    since_ = now;
  }
  /// The reader has waited for the backend since `asked`, or the last call.
  void waited(Instant now) {
    delay_ = std::max(delay_ - (now - since_), Duration{});
    since_ = now;
  }
  /// True if a backend that breaks the response has waited for the client.
  bool is_long() const { return delay_ >= min_delay; }

 private:
  static constexpr Duration min_delay = std::chrono::milliseconds(100);
  static constexpr Duration max_delay = std::chrono::seconds(1);

  Duration delay_{};
  Instant since_;
};

/// The body of a response. `Reader`, which derives from it, has
///
///   std::optional<Result<Chunk>> take();   the next chunk, if it can be had without waiting
///   arrival(Instant deadline);             an awaitable Wake: more may have come
///   std::optional<Error> upload_failure(); why the upload of the request has failed, once
///   Instant last_upload_progress() const;  when bytes of that last moved
template <class Reader>
class ResponseBody : public LinkBody {
 public:
  Task<Result<Chunk>> read() final {
    delay_.asked(loop_.now());
    if (auto chunk = reader().take()) return std::move(*chunk);
    return wait();
  }

 protected:
  /// The backend has broken the response.
  void note_break() {
    if (delay_.is_long()) note_awaited_client();
  }

 private:
  friend Reader;

  /// Both outlive it.
  ResponseBody(const Loop& loop, BackendExchange& exchange, bool awaits_beginning)
      : loop_(loop), exchange_(exchange), delay_(loop.now()) {
    awaits_beginning_ = awaits_beginning;
  }

  Reader& reader() { return static_cast<Reader&>(*this); }

  Task<Result<Chunk>> wait() {
    Instant since = loop_.now();
    while (true) {
      const bool begins = awaits_beginning_ && !exchange_.upload.running;
      auto wake = co_await reader().arrival(exchange_.body_deadline(begins, since));
      delay_.waited(loop_.now());
      if (wake == Wake::interrupted) {
        if (auto failure = reader().upload_failure()) co_return std::move(*failure);
      }
      if (auto chunk = reader().take()) co_return std::move(*chunk);
      if (auto failure = reader().upload_failure()) co_return std::move(*failure);
      if (wake != Wake::expired) continue;
      if (begins) {
        co_return backend_error(Fault::first_byte_timeout, "the backend sent no output in time");
      }
      since = reader().last_upload_progress();
      if (exchange_.body_deadline(false, since) > loop_.now()) continue;
      if (exchange_.has_awaited_client()) note_awaited_client();
      co_return backend_error(Fault::idle_timeout, "the backend sent nothing for too long");
    }
  }

  const Loop& loop_;
  BackendExchange& exchange_;
  ReaderDelay delay_;
};

}  // namespace evenkeel
