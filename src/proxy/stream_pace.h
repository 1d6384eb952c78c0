// How fast output follows output in a model's stream.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Measures the time between outputs of a stream: from its first output on, a few outputs about
/// twice a second.
class StreamPace {
 public:
  /// A chunk has passed, with which the stream has so many events with output. Returns the time
  /// between two of them if that completes a measurement. `last`: no more follow.
  std::optional<Duration> on_chunk(std::uint32_t output_events, bool last, Instant now);
  /// True if the next chunk is part of no measurement.
  bool skips_next() const { return chunks_to_skip_ > 0; }

 private:
  bool measures_ = false;
  std::uint32_t output_events_ = 0;  // with the chunk before
  std::uint32_t first_events_ = 0;   // up to the first output of the measurement
  Instant first_at_{};
  int chunks_to_skip_ = 0;
};

}  // namespace evenkeel
