// How a metric name of some engine maps to a quantity that balancing uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace evenkeel {

enum class Quantity : std::uint8_t {
  running,
  waiting,
  kv_cache_ratio,
  kv_cache_used,  ///< in the unit of the capacity, whatever it is
  kv_cache_capacity,
  gpu_utilization_ratio,
  gpu_memory_used_bytes,
  gpu_memory_total_bytes,
  gpu_memory_ratio,
};

inline constexpr std::size_t quantity_count =
    static_cast<std::size_t>(Quantity::gpu_memory_ratio) + 1;

/// How several samples become one value.
enum class Aggregation : std::uint8_t { sum, max, mean };

/// A sample counts only if the label, where it is present, has this value.
struct LabelMatcher {
  std::string_view label;
  std::string_view value;
  bool required = false;  ///< the label must be present, too
};

struct Series {
  std::string_view name;
  Quantity quantity;
  Aggregation aggregation = Aggregation::sum;
  double scale = 1;  ///< converts a sample's value to a ratio, to bytes, or to a count
  /// Among series of the same quantity, the one with the lowest number that has samples counts.
  std::uint8_t preference = 0;
  std::span<const LabelMatcher> matchers = {};
  /// Of several samples with the same value of this label, or without it, the largest counts.
  /// Empty: every sample counts.
  std::string_view group_by = {};
};

inline constexpr double mebibyte = 1024.0 * 1024.0;
inline constexpr double percent = 0.01;

}  // namespace evenkeel
