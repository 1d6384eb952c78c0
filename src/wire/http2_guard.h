// Checks that nghttp2 1.52 leaves to its user: frames on closed streams, and peers whose frames
// cost more than they carry. Arithmetic on frame headers; no I/O.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A token bucket: refills at a rate up to a burst.
class TokenBucket {
 public:
  /// `rate`: tokens per second.
  TokenBucket(double burst, double rate) : burst_(burst), rate_(rate), left_(burst) {}
  /// False when the bucket is empty.
  bool take(Instant now) {
    if (now > filled_) {
      if (filled_ != Instant{}) {
        left_ += rate_ * std::chrono::duration<double>(now - filled_).count();
        if (left_ > burst_) left_ = burst_;
      }
      filled_ = now;
    }
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  /// Puts back what was taken.
  void give_back() { left_ = std::min(left_ + 1, burst_); }

 private:
  double burst_;
  double rate_;
  double left_;
  Instant filled_{};
};

/// The header of a frame (RFC 9113, section 4.1).
struct Http2FrameHeader {
  static constexpr std::size_t size = 9;
  std::uint32_t length = 0;
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::int32_t stream = 0;

  static Http2FrameHeader parse(const char* bytes);
  /// Writes four bytes, as of an id or an error code.
  static void put_word(char* to, std::uint32_t word) {
    for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<char>(word >> (24 - 8 * i));
  }
};

/// Checks the frames of one connection in their order.
///
/// The limits are per connection and follow CVE-2019-9511 ff., CVE-2023-44487 (rapid reset) and
/// CVE-2025-8671 (MadeYouReset). gRPC clients, with pings, cancelled calls and many small messages,
/// stay far below them.
class Http2Guard {
 public:
  /// Why a connection has to end: an error code of RFC 9113 and the text for the log.
  struct Violation {
    std::uint32_t code;
    const char* detail;
  };
  using Verdict = std::optional<Violation>;

  enum class Side : std::uint8_t { client, server };  // ours
  explicit Http2Guard(Side side) : side_(side) {}

  /// How many bytes of a frame's payload `frame` needs.
  static constexpr std::size_t max_inspected_bytes = 4;
  static std::size_t payload_bytes_needed(const Http2FrameHeader& head) {
    return head.type == priority && head.length == 5 ? max_inspected_bytes : 0;
  }
  /// Checks a frame whose header was read. `payload`: as many bytes as `payload_bytes_needed` says.
  /// `alive`: its stream, if it names one that was opened before, is not closed.
  Verdict frame(const Http2FrameHeader& head, std::string_view payload, bool alive, Instant now);
  /// True if `frame` needs `alive`; the caller must then process all earlier frames first.
  bool needs_stream_state(const Http2FrameHeader& head) const {
    return (head.type == data || head.type == headers) && head.stream != 0 &&
           head.stream <= highest_stream_;
  }

  /// nghttp2 reset a stream because of the peer's error.
  Verdict stream_error(Instant now);
  /// A WINDOW_UPDATE of `increment` bytes was received.
  Verdict window_update(std::int32_t increment, Instant now);

  /// A stream has ended: in order, by the peer's reset, or by ours.
  enum class Closed : std::uint8_t { done, by_peer, by_us };
  void closed(std::int32_t stream, Closed how);
  /// The peer reset a stream that was answered in full: it gave up sending the rest of a request,
  /// which is no abuse.
  void reset_after_answer() { resets_.give_back(); }
  /// A frame of a message with `size` bytes was sent: what the peer sends in return is not abuse.
  void sent_message_frame(std::size_t size) {
    sent_since_ping_ = true;
    payload_ += size;
    if (size > 0 && window_credit_ < max_window_credit) window_credit_ += 2;
  }
  /// A GOAWAY was sent: frames on streams above `last` are not violations.
  void goaway_sent(std::int32_t last) { last_ = last; }

 private:
  static constexpr std::uint8_t data = 0;
  static constexpr std::uint8_t headers = 1;
  static constexpr std::uint8_t priority = 2;
  /// A link has at most 1000 streams: this is for four small messages on each at the same time.
  static constexpr int max_window_credit = 8000;

  Verdict data_frame(const Http2FrameHeader& head, bool alive, Instant now);
  Verdict headers_frame(const Http2FrameHeader& head, bool alive);
  Verdict overhead(const Http2FrameHeader& head);
  Verdict glitch(const char* detail, Instant now);

  /// The ids of the streams that ended last.
  template <std::size_t N>
  struct Recent {
    std::array<std::int32_t, N> ids{};
    std::size_t next = 0;
    void add(std::int32_t id) { ids[next++ % N] = id; }
    bool has(std::int32_t id) const {
      for (const std::int32_t each : ids) {
        if (each == id) return true;
      }
      return false;
    }
  };

  Side side_;
  bool sent_since_ping_ = true;
  std::int32_t last_ = std::numeric_limits<std::int32_t>::max();
  std::int32_t highest_stream_ = 0;  // the highest stream that the peer has opened
  int window_credit_ = 100;
  std::uint32_t consecutive_empty_ = 0;
  std::uint64_t payload_ = 0;
  std::uint64_t overhead_ = 0;
  TokenBucket resets_{1000, 100};       // the client's RST_STREAM
  TokenBucket stream_errors_{100, 10};  // streams reset because of its errors
  TokenBucket pings_{100, 10};
  TokenBucket settings_{100, 10};
  TokenBucket glitches_{1000, 100};
  Recent<32> closed_;
  Recent<256> reset_by_us_;  // the peer may have sent frames before it saw the reset
};

}  // namespace evenkeel
