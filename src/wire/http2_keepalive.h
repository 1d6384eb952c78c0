// Finds backends that are gone although their connection is not.
#pragma once

#include <algorithm>

#include "evenkeel/base/loop.h"
#include "evenkeel/wire/link.h"
#include "http2_session.h"
#include "silence_limit.h"

namespace evenkeel {

/// Pings a backend that has open requests and was silent for a while, whatever was sent to it; ends
/// the session if it does not answer.
///
/// Thread: the session's.
class Http2Keepalive {
 public:
  /// `silence` limits the wait for an answer, too. All outlive it.
  Http2Keepalive(Http2Session& session, const SilenceLimit& silence, const LinkOptions& options)
      : session_(session), silence_(silence), options_(options) {}

  /// A request was submitted.
  void on_request(Instant now) {
    if (session_.open_streams() == 1) busy_since_ = now;
    if (!timer_.armed()) timer_.arm(session_.loop(), now + options_.ping_after);
  }
  /// Pings at once, unless an answer is awaited. REQUIRES: requests are open.
  void expect_answer();
  /// True if a ping was not answered in time.
  bool failed() const { return failed_; }

 private:
  void check();
  void ping();
  void note_messages() {
    if (session_.peer().last_message >= pinged_at_) pings_without_message_ = 0;
  }
  Instant answer_due() const {
    return pinged_at_ + std::min(options_.ping_timeout, silence_.longest());
  }

  Http2Session& session_;
  const SilenceLimit& silence_;
  const LinkOptions& options_;
  Instant busy_since_{};  // when the first of the open requests was submitted
  Instant pinged_at_{};
  int pings_without_message_ = 0;  // since the last HEADERS or DATA
  bool failed_ = false;
  MethodTimer<&Http2Keepalive::check> timer_{*this};
};

}  // namespace evenkeel
