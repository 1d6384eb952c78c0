// What nghttp2 1.52 leaves to its user: frames on streams that are closed, and peers whose frames
// cost more than they carry. Arithmetic on frame headers; no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Tokens that come back at a rate, up to a burst.
class TokenBucket {
 public:
  /// `rate`: tokens per second.
  TokenBucket(double burst, double rate) : burst_(burst), rate_(rate), left_(burst) {}
  /// False when there is none left.
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
};

/// Watches the frames of one connection, in the order in which they come.
///
/// The limits are per connection and follow CVE-2019-9511 ff., CVE-2023-44487 (rapid reset) and
/// CVE-2025-8671 (MadeYouReset); clients of gRPC with their pings, cancelled calls and many small
/// messages stay far below them.
class Http2Guard {
 public:
  /// Why a connection has to end: an error code of RFC 9113 and what to log.
  struct Violation {
    std::uint32_t code;
    const char* detail;
  };
  using Verdict = std::optional<Violation>;

  enum class Side : std::uint8_t { client, server };  // what we are
  explicit Http2Guard(Side side) : side_(side) {}

  /// How many bytes of a frame's payload `frame` has to see.
  static constexpr std::size_t max_inspected_bytes = 4;
  static std::size_t payload_bytes_needed(const Http2FrameHeader& head) {
    return head.type == priority && head.length == 5 ? max_inspected_bytes : 0;
  }
  /// A frame's header was read. `payload`: the bytes that it asked for. `alive`: its stream is
  /// known and not closed, where it has one that was opened before.
  Verdict frame(const Http2FrameHeader& head, std::string_view payload, bool alive, Instant now);
  /// Whether `frame` needs to know if the stream is alive: all frames before this one must have
  /// been handled by then.
  bool needs_stream_state(const Http2FrameHeader& head) const {
    return (head.type == data || head.type == headers) && head.stream != 0 &&
           head.stream <= highest_stream_;
  }

  /// The peer did what made the library reset one of its streams.
  Verdict stream_error(Instant now);
  /// A window was opened by so many bytes.
  Verdict window_update(std::int32_t increment, Instant now);

  /// A stream has ended: in order, by the peer's reset, or by ours.
  enum class Closed : std::uint8_t { done, by_peer, by_us };
  void closed(std::int32_t stream, Closed how);
  /// We sent a frame of a message, of `size` bytes: what the peer sends to keep it moving is no
  /// abuse.
  void sent_message_frame(std::size_t size) {
    sent_since_ping_ = true;
    payload_ += size;
    if (size > 0 && window_credit_ < max_window_credit) window_credit_ += 2;
  }
  /// We have said that streams above this one are ignored: their frames are no fault.
  void goaway_sent(std::int32_t last) { last_ = last; }

 private:
  static constexpr std::uint8_t data = 0;
  static constexpr std::uint8_t headers = 1;
  static constexpr std::uint8_t priority = 2;
  static constexpr int max_window_credit = 1000;

  Verdict overhead(const Http2FrameHeader& head);
  Verdict glitch(const char* detail, Instant now);

  /// The ids of streams that ended last.
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
  TokenBucket stream_errors_{100, 10};  // what it made us reset
  TokenBucket pings_{100, 10};
  TokenBucket settings_{100, 10};
  TokenBucket glitches_{1000, 100};
  Recent<32> closed_;
  Recent<256> reset_by_us_;  // frames may have been on their way
};

}  // namespace evenkeel
