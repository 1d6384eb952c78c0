#include "http2_guard.h"

namespace evenkeel {
namespace {

// RFC 9113, section 7.
constexpr std::uint32_t protocol_error = 0x1;
constexpr std::uint32_t stream_closed = 0x5;
constexpr std::uint32_t frame_size_error = 0x6;
constexpr std::uint32_t enhance_your_calm = 0xb;

// RFC 9113, section 6.
constexpr std::uint8_t rst_stream = 0x3;
constexpr std::uint8_t settings = 0x4;
constexpr std::uint8_t push_promise = 0x5;
constexpr std::uint8_t ping = 0x6;
constexpr std::uint8_t goaway = 0x7;
constexpr std::uint8_t window_update_frame = 0x8;
constexpr std::uint8_t continuation = 0x9;
constexpr std::uint8_t ack = 0x1;
constexpr std::uint8_t end_stream = 0x1;

constexpr std::uint32_t max_consecutive_empty = 100;
constexpr std::int32_t small_increment = 1024;
constexpr std::uint64_t overhead_allowance = 1024 * 1024;

std::uint32_t byte_at(std::string_view bytes, std::size_t place) {
  return static_cast<std::uint8_t>(bytes[place]);
}

/// A stream's id without the reserved bit.
std::int32_t read_stream_id(std::string_view bytes) {
  const std::uint32_t id = byte_at(bytes, 0) << 24 | byte_at(bytes, 1) << 16 |
                           byte_at(bytes, 2) << 8 | byte_at(bytes, 3);
  return static_cast<std::int32_t>(id & 0x7fffffff);
}

}  // namespace

Http2FrameHeader Http2FrameHeader::parse(const char* place) {
  const std::string_view bytes(place, size);
  return {.length = byte_at(bytes, 0) << 16 | byte_at(bytes, 1) << 8 | byte_at(bytes, 2),
          .type = static_cast<std::uint8_t>(byte_at(bytes, 3)),
          .flags = static_cast<std::uint8_t>(byte_at(bytes, 4)),
          .stream = read_stream_id(bytes.substr(5))};
}

Http2Guard::Verdict Http2Guard::glitch(const char* detail, Instant now) {
  if (glitches_.take(now)) return std::nullopt;
  return Violation{enhance_your_calm, detail};
}

/// Frames must carry payload: after the first MiB, overhead may be at most eight times as much.
/// Payload that we send counts too, since the peer answers it with WINDOW_UPDATE.
Http2Guard::Verdict Http2Guard::overhead(const Http2FrameHeader& head) {
  const bool message = head.type == data || head.type == headers || head.type == continuation;
  overhead_ += Http2FrameHeader::size + (message ? 0 : head.length);
  if (message) payload_ += head.length;
  if (overhead_ / 8 > payload_ + overhead_allowance) {
    return Violation{enhance_your_calm, "too much framing overhead"};
  }
  return std::nullopt;
}

Http2Guard::Verdict Http2Guard::data_frame(const Http2FrameHeader& head, bool alive, Instant now) {
  const bool opened = head.stream != 0 && head.stream <= highest_stream_;
  if (opened && !alive && !reset_by_us_.has(head.stream)) {
    return Violation{stream_closed, "DATA on a closed stream"};
  }
  if (head.length != 0 || (head.flags & end_stream) != 0) {
    consecutive_empty_ = 0;
    return std::nullopt;
  }
  if (++consecutive_empty_ > max_consecutive_empty) {
    return Violation{enhance_your_calm, "flood of empty DATA"};
  }
  return glitch("flood of empty DATA", now);
}

Http2Guard::Verdict Http2Guard::headers_frame(const Http2FrameHeader& head, bool alive) {
  if (side_ == Side::client) return std::nullopt;  // only we open streams
  if (head.stream > highest_stream_) {
    highest_stream_ = head.stream;
    return std::nullopt;
  }
  if (head.stream == 0 || alive || reset_by_us_.has(head.stream)) return std::nullopt;
  if (closed_.has(head.stream)) return Violation{stream_closed, "HEADERS on a closed stream"};
  return Violation{protocol_error, "a new stream has a lower id than an earlier one"};
}

Http2Guard::Verdict Http2Guard::frame(const Http2FrameHeader& head, std::string_view payload,
                                      bool alive, Instant now) {
  if (auto verdict = overhead(head)) return verdict;
  if (head.stream > last_ && (head.type == data || head.type == headers)) return std::nullopt;
  switch (head.type) {
    case data: return data_frame(head, alive, now);
    case headers: return headers_frame(head, alive);
    case rst_stream:
      // A backend's resets answer our own requests.
      if (side_ == Side::client || resets_.take(now)) return std::nullopt;
      return Violation{enhance_your_calm, "flood of RST_STREAM"};
    case settings:
      if ((head.flags & ack) != 0 || settings_.take(now)) return std::nullopt;
      return Violation{enhance_your_calm, "flood of SETTINGS"};
    case ping:
      // As gRPC servers count: a ping after data of ours measures the bandwidth.
      if ((head.flags & ack) != 0) return glitch("flood of PING", now);
      if (sent_since_ping_) {
        sent_since_ping_ = false;
        return std::nullopt;
      }
      if (pings_.take(now)) return std::nullopt;
      return Violation{enhance_your_calm, "flood of PING"};
    case window_update_frame: return std::nullopt;  // checked by its increment
    case continuation: return std::nullopt;         // nghttp2 counts them
    case priority: {
      // nghttp2 ignores these frames when the priorities of RFC 7540 are off.
      if (head.stream == 0) return Violation{protocol_error, "PRIORITY on no stream"};
      if (head.length != 5) return Violation{frame_size_error, "PRIORITY of the wrong size"};
      if (read_stream_id(payload) == head.stream) {
        return Violation{protocol_error, "a stream depends on itself"};
      }
      return glitch("flood of PRIORITY", now);
    }
    case push_promise:
    case goaway: return glitch("flood of control frames", now);
    default: return glitch("flood of unknown frames", now);
  }
}

Http2Guard::Verdict Http2Guard::stream_error(Instant now) {
  if (stream_errors_.take(now)) return std::nullopt;
  return Violation{enhance_your_calm, "too many broken streams"};
}

Http2Guard::Verdict Http2Guard::window_update(std::int32_t increment, Instant now) {
  if (increment >= small_increment) return std::nullopt;
  if (window_credit_ > 0) {
    --window_credit_;
    return std::nullopt;
  }
  return glitch("flood of WINDOW_UPDATE", now);
}

void Http2Guard::closed(std::int32_t stream, Closed how) {
  if (how == Closed::by_us) {
    reset_by_us_.add(stream);
  } else {
    closed_.add(stream);
  }
}

}  // namespace evenkeel
