#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel::bench {

// A chat-completion chunk as a server-sent event, with the time of sending inside the token's text:
// proxies that re-serialise the JSON keep the text, but would drop a field of our own.
class TimestampedEvent {
 public:
  // payload_bytes: length to which the event is padded, where it is shorter.
  explicit TimestampedEvent(std::size_t payload_bytes);

  // The event with this time as one HTTP chunk. Valid until the next call.
  std::string_view chunk_with_timestamp(std::uint64_t now_ns);

 private:
  std::string chunk_;
  std::size_t digits_at_ = 0;
};

// Finds the timestamps in a stream of body bytes that arrives in pieces.
class TimestampParser {
 public:
  // Calls `found(timestamp_ns)` for each event that ended in `bytes`.
  template <class Found>
  void feed(std::string_view bytes, Found&& found) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos) {
        kept_.append(bytes);
        return;
      }
      if (const auto timestamp = parse_timestamp(bytes.substr(0, end))) found(*timestamp);
      bytes.remove_prefix(end + 1);
    }
  }

  void restart() { kept_.clear(); }

 private:
  std::optional<std::uint64_t> parse_timestamp(std::string_view tail);
  std::string kept_;  // an incomplete line
};

}  // namespace evenkeel::bench
