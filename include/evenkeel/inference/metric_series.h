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
  // Quantities of EngineReport.
  start_time,
  work_done,
  kv_tokens,
  kv_blocks,  ///< with kv_tokens_per_block, where there is no kv_tokens
  kv_tokens_per_block,
  step_tokens,
  prefix_queried,
  prefix_hit,
  awake,          ///< 0: it sleeps
  adapter_slots,  ///< LoRA adapters that it keeps loaded
  adapters,       ///< in labels: see AdapterLabels
};

inline constexpr std::size_t quantity_count = static_cast<std::size_t>(Quantity::adapters) + 1;

/// How several samples become one value.
enum class Aggregation : std::uint8_t { sum, max, mean };

/// A sample counts only if the label, where it is present, has this value.
struct LabelMatcher {
  std::string_view label;
  std::string_view value;
  bool required = false;  ///< the label must be present, too
};

/// The labels of a series that lists LoRA adapters, separated by commas. Its value says when: of
/// several samples, the last counts.
struct AdapterLabels {
  std::string_view running;  ///< the adapters of requests that run
  std::string_view waiting;
  std::string_view slots;  ///< how many adapters the engine keeps loaded
};

struct Series {
  std::string_view name;
  Quantity quantity;
  Aggregation aggregation = Aggregation::sum;
  double scale = 1;  ///< converts a sample's value to a ratio, to bytes, or to a count
  /// The rank among series of the same quantity: the lowest number that has samples counts.
  std::uint8_t preference = 0;
  std::span<const LabelMatcher> matchers = {};
  /// The label by which samples are grouped: of those with the same value of it, or without it, the
  /// largest counts. Empty: every sample counts.
  std::string_view group_by = {};
  /// The sample's value is the product of these labels. A sample in which one of them is no number
  /// does not count. Empty: its own value.
  std::span<const std::string_view> factors = {};
  const AdapterLabels* adapters = nullptr;  ///< of Quantity::adapters
};

inline constexpr double mebibyte = 1024.0 * 1024.0;
inline constexpr double percent = 0.01;

}  // namespace evenkeel
