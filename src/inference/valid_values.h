// Which numbers of engines and exporters count; all others are unknown.
#pragma once

#include <algorithm>

#include "evenkeel/base/load_sample.h"

namespace evenkeel {

inline constexpr double max_requests = 1e9;
/// DCGM writes 2^47 and numbers near 2^31 and 2^63 for unknown values, in MiB: all above this.
inline constexpr double max_memory_bytes = 0x1p50;

inline double valid_or_unknown(double value, double max_value) {
  return value >= 0 && value <= max_value ? value : LoadSample::unknown;
}
/// Some engines report slightly more than their capacity.
inline double valid_ratio(double value) { return std::min(valid_or_unknown(value, 1.5), 1.0); }

}  // namespace evenkeel
