#include "http2_keepalive.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace evenkeel {
namespace {

/// gRPC servers close a connection at the third ping that comes less than five minutes after the
/// one before without data in between (GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
/// max_ping_strikes). One of the two is kept in reserve, for a ping that crosses data. After that
/// SETTINGS frames take the place of pings, less often.
constexpr int max_pings_without_message = 2;
constexpr int quiet_factor = 3;  // of `ping_after`

}  // namespace

void Http2Keepalive::check() {
  if (session_.ended() || session_.open_streams() == 0) return;
  const Instant now = session_.loop().now();
  if (session_.peer().ping_unanswered) {
    if (now >= answer_due()) {
      failed_ = true;
      session_.fail(NGHTTP2_NO_ERROR, "the backend does not answer pings");
    } else {
      timer_.arm(session_.loop(), answer_due());
    }
    return;
  }
  note_messages();
  const Instant quiet_since = std::max(session_.peer().last_read, busy_since_);
  Instant due = quiet_since + options_.ping_after;
  if (pings_without_message_ >= max_pings_without_message) {
    due = std::max(due, pinged_at_ + quiet_factor * options_.ping_after);
  }
  if (now >= due) {
    ping();
  } else {
    timer_.arm(session_.loop(), due);
  }
}

void Http2Keepalive::ping() {
  if (pings_without_message_ < max_pings_without_message) {
    session_.ping(Http2Session::Ping::ping);
    ++pings_without_message_;
  } else {
    session_.ping(Http2Session::Ping::settings);
  }
  pinged_at_ = session_.loop().now();
  timer_.arm(session_.loop(), answer_due());
}

void Http2Keepalive::expect_answer() {
  note_messages();
  if (session_.peer().ping_unanswered) {
    timer_.arm(session_.loop(), answer_due());
  } else {
    ping();
  }
}

}  // namespace evenkeel
