#include "proxy/stream_pace.h"

#include <algorithm>

namespace evenkeel {
namespace {

constexpr std::uint32_t measured_outputs = 4;
constexpr std::uint32_t enough_at_the_end = 2;
constexpr Duration measuring_interval = std::chrono::milliseconds(500);
constexpr Duration::rep min_skipped = 8;
constexpr Duration::rep max_skipped = 128;

}  // namespace

std::unique_ptr<StreamPace> StreamPace::of(std::optional<ResponseFormat> format) {
  if (!format || *format == ResponseFormat::json) return nullptr;
  return std::make_unique<StreamPace>(*format);
}

std::optional<Duration> StreamPace::read(std::string_view bytes, bool last, Instant now) {
  const std::uint32_t before = response_.output_events;
  reader_->read(bytes, now);
  if (last) reader_->finish(now);
  chunks_to_skip_ = 0;
  if (chunks_to_count_ > 0) {
    --chunks_to_count_;
    return std::nullopt;
  }
  if (!measures_) {
    // Outputs that come together with the first one say nothing of the time between them.
    measures_ = response_.output_events > before;
    first_events_ = response_.output_events;
    first_at_ = now;
    return std::nullopt;
  }
  const std::uint32_t outputs = response_.output_events - first_events_;
  if (outputs < (last ? enough_at_the_end : measured_outputs)) return std::nullopt;
  measures_ = false;
  const Duration interval = (now - first_at_) / outputs;
  if (interval <= Duration{}) return std::nullopt;
  const auto pause =
      static_cast<int>(std::clamp(measuring_interval / interval, min_skipped, max_skipped));
  (may_skip_ ? chunks_to_skip_ : chunks_to_count_) = pause;
  return interval;
}

}  // namespace evenkeel
