// One request at a backend, as the links of all protocols see it: what has to come by when, and who
// was waited for.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/shared_count.h"
#include "evenkeel/wire/link.h"
#include "silence_limit.h"

namespace evenkeel {

inline Error backend_error(Fault fault, std::string detail) {
  return {.fault = fault, .side = Side::backend, .detail = std::move(detail)};
}

/// The error of a request whose response has not begun in time.
inline Error late_head() {
  return backend_error(Fault::first_byte_timeout, "the backend did not answer in time");
}

/// The error of an upload whose slow reader is the backend.
inline Error stalled_upload() {
  return backend_error(Fault::idle_timeout, "the backend reads nothing of the request");
}

/// How long an upload has waited for more of the request body, that is, for the client.
class UploadWaits {
 public:
  /// A wait, while it lasts. The backend has everything that has come of the body.
  class Wait {
   public:
    /// `waiting`: counts the request meanwhile; null: nothing does.
    Wait(UploadWaits& waits, const Loop& loop, SharedCount* waiting)
        : waits_(waits), loop_(loop), counted_(waiting) {
      waits_.since_ = loop.now();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() { waits_.total_ += loop_.now() - std::exchange(waits_.since_, never); }

   private:
    UploadWaits& waits_;
    const Loop& loop_;
    Counted counted_;
  };

  bool waiting() const { return since_ != never; }
  /// True if a backend that ends a request of this age has waited for its client: just now, or for
  /// long in all and most of the time.
  bool waited_long_for_client(Instant now, Duration age) const {
    constexpr Duration min_pause = std::chrono::milliseconds(100);
    constexpr Duration min_total = std::chrono::milliseconds(500);
    const Duration pause = waiting() ? now - since_ : Duration{};
    const Duration total = total_ + pause;
    return pause >= min_pause || (total >= min_total && total >= age / 2);
  }

 private:
  Instant since_ = never;  // the current wait; never: there is none
  Duration total_{};       // of those before
};

/// The deadlines of one request, and what is known of its upload. A link over which one request
/// follows the other reuses it.
class BackendExchange {
 public:
  /// All outlive it.
  BackendExchange(const Loop& loop, const LinkOptions& options, const SilenceLimit& silence)
      : loop_(loop), options_(options), silence_(silence) {}

  /// Begins a request, whose route may have timeouts of its own.
  void begin(const RequestTimings& timings) {
    first_byte_timeout_ = timings.first_byte_timeout != Duration{} ? timings.first_byte_timeout
                                                                   : options_.first_byte_timeout;
    idle_timeout_ =
        timings.idle_timeout != Duration{} ? timings.idle_timeout : options_.idle_timeout;
    began_ = loop_.now();
    first_byte_deadline_ = never;
    interim_left_ = max_interim_responses;
    upload = {};
  }
  Instant began() const { return began_; }

  /// When the response's head must be in. Counts from the end of the upload.
  Instant head_deadline() { return silence_.shorten(first_byte_deadline(), began_); }
  /// When more of the response's body must be in, after an instant at which either side has sent
  /// something. While the body is awaited to begin, the deadline of the head continues, since
  /// servers send the head of a stream before they begin to work on it.
  Instant body_deadline(bool awaits_beginning, Instant since) {
    const Instant own = awaits_beginning ? first_byte_deadline() : since + idle_timeout_;
    return silence_.shorten(own, since);
  }

  /// Counts an interim response. False: there are too many.
  bool may_be_interim() { return --interim_left_ >= 0; }
  /// True if a reused link that ends now was probably idle for its backend, which has not read the
  /// request: it may close an idle link while the next request arrives. If the link ends later, the
  /// backend may have read it.
  bool may_cross_idle_close() const {
    constexpr Duration max_race = std::chrono::seconds(1);
    return interim_left_ == max_interim_responses && loop_.now() - began_ < max_race;
  }
  /// True if the backend has all that has come of an upload that has not ended, and has waited for
  /// more: that it does not wait for ever says nothing of it.
  bool has_awaited_client() const {
    const bool incomplete = upload.waits.waiting() || upload.broken;
    return incomplete && upload.waits.waited_long_for_client(loop_.now(), loop_.now() - began_);
  }

  struct Upload {
    bool running = false;
    bool broken = false;  ///< the backend has closed before its end
    UploadWaits waits;
  };
  Upload upload;

 private:
  static constexpr int max_interim_responses = 16;

  Instant first_byte_deadline() {
    if (upload.running) return never;
    if (first_byte_deadline_ == never) {
      first_byte_deadline_ = loop_.now() + first_byte_timeout_;
    }
    return first_byte_deadline_;
  }

  const Loop& loop_;
  const LinkOptions& options_;
  const SilenceLimit& silence_;
  Duration first_byte_timeout_{};
  Duration idle_timeout_{};
  Instant began_{};
  Instant first_byte_deadline_ = never;
  int interim_left_ = max_interim_responses;
};

}  // namespace evenkeel
