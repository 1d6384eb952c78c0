#include "proxy/stream_pace.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::uint32_t measured_outputs = 4;
constexpr std::uint32_t enough_at_the_end = 2;
constexpr Duration measuring_interval = std::chrono::milliseconds(500);
constexpr Duration::rep min_skipped = 8;
constexpr Duration::rep max_skipped = 128;

}  // namespace

std::optional<Duration> StreamPace::on_chunk(std::uint32_t output_events, bool last, Instant now) {
  const std::uint32_t before = std::exchange(output_events_, output_events);
  if (chunks_to_skip_ > 0) {
    --chunks_to_skip_;
    return std::nullopt;
  }
  if (!measures_) {
    // Outputs that come together with the first one say nothing of the time between them.
    measures_ = output_events > before;
    first_events_ = output_events;
    first_at_ = now;
    return std::nullopt;
  }
  const std::uint32_t outputs = output_events - first_events_;
  if (outputs < (last ? enough_at_the_end : measured_outputs)) return std::nullopt;
  measures_ = false;
  const Duration interval = (now - first_at_) / outputs;
  if (interval <= Duration{}) return std::nullopt;
  chunks_to_skip_ =
      static_cast<int>(std::clamp(measuring_interval / interval, min_skipped, max_skipped));
  return interval;
}

}  // namespace evenkeel
