#include "bench/sse_events.h"

#include <charconv>
#include <cstdio>

namespace evenkeel::bench {
namespace {

constexpr std::string_view kMark = "@ns=";
constexpr std::size_t kDigits = 20;
constexpr std::string_view kFront =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{"content":")";
constexpr std::string_view kBack = R"("},"finish_reason":null}]})";

std::optional<std::uint64_t> stamp_in(std::string_view line) {
  const std::size_t mark = line.find(kMark);
  if (mark == std::string_view::npos || line.size() < mark + kMark.size() + kDigits) return {};
  const char* digits = line.data() + mark + kMark.size();
  std::uint64_t stamp = 0;
  const auto parsed = std::from_chars(digits, digits + kDigits, stamp);
  if (parsed.ec != std::errc{} || parsed.ptr != digits + kDigits) return {};
  return stamp;
}

}  // namespace

TimestampedEvent::TimestampedEvent(std::size_t payload_bytes) {
  std::string event(kFront);
  event += kMark;
  digits_at_ = event.size();
  event.append(kDigits, '0');
  const std::size_t bare = event.size() + kBack.size() + 2;
  if (payload_bytes > bare) event.append(payload_bytes - bare, 'x');
  event += kBack;
  event += "\n\n";

  char size_line[32];
  std::snprintf(size_line, sizeof size_line, "%zx\r\n", event.size());
  chunk_ = size_line + event + "\r\n";
  digits_at_ += std::string_view(size_line).size();
}

std::string_view TimestampedEvent::chunk_with_timestamp(std::uint64_t now_ns) {
  for (std::size_t i = kDigits; i-- > 0; now_ns /= 10) {
    chunk_[digits_at_ + i] = static_cast<char>('0' + now_ns % 10);
  }
  return chunk_;
}

std::optional<std::uint64_t> TimestampParser::parse_timestamp(std::string_view tail) {
  if (kept_.empty()) return stamp_in(tail);
  kept_.append(tail);
  const auto stamp = stamp_in(kept_);
  kept_.clear();
  return stamp;
}

}  // namespace evenkeel::bench
