// What the expositions of inference engines say of their load, whatever each calls it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/exposition.h"

namespace evenkeel {

/// What was read of one server. NaN: it says nothing of that, which is never the same as 0.
struct EngineMetrics {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double running = unknown;                 ///< requests in the batch, over all models and ranks
  double waiting = unknown;                 ///< requests in the queue, likewise
  double kv_cache_ratio = unknown;          ///< 0..1, of the rank that has least room
  double gpu_utilization_ratio = unknown;   ///< 0..1, mean over its GPUs
  double gpu_memory_used_bytes = unknown;   ///< sum over its GPUs
  double gpu_memory_total_bytes = unknown;  ///< likewise

  bool any() const;
};

/// What a series is about.
enum class Quantity : std::uint8_t {
  running,
  waiting,
  kv_cache_ratio,
  kv_cache_used,  ///< in whatever unit the capacity has
  kv_cache_capacity,
  gpu_utilization_ratio,
  gpu_memory_used_bytes,
  gpu_memory_total_bytes,
  gpu_memory_ratio,
};

inline constexpr std::size_t quantity_count =
    static_cast<std::size_t>(Quantity::gpu_memory_ratio) + 1;

/// What becomes of several samples.
enum class Aggregation : std::uint8_t { sum, max, mean };

/// A label that decides whether a sample counts: where the label is there, it must have the value.
struct LabelMatcher {
  std::string_view label;
  std::string_view value;
  bool required = false;  ///< it must be there too
};

/// One name in one dialect.
struct Series {
  std::string_view name;
  Quantity quantity;
  Aggregation aggregation = Aggregation::sum;
  double scale = 1;  ///< a sample's value times this is a ratio, bytes, or a count
  std::uint8_t preference =
      0;  ///< among names for the same quantity: the lowest that is there counts
  std::span<const LabelMatcher> matchers = {};
  /// A label whose values tell apart what is to be folded: of several samples with the same value,
  /// or without the label, the largest counts. Empty: every sample counts.
  std::string_view group_by = {};
};

/// How one engine tells of itself.
struct MetricsDialect {
  std::string_view engine;  ///< as the file names it
  std::string_view path;    ///< of its exposition; empty: it has none
  /// Where some servers of this engine give the wanted series alone, which they render in a
  /// fraction of the time; what others answer there has none of them. Empty: nowhere.
  std::string_view short_path = {};
  /// What such a server has to be started with to have one, for people; empty: nothing.
  std::string_view required_option = {};
  /// Reading it counts as work: it would wake a sleeping model, or keep it from going to sleep.
  bool prevents_sleep = false;
  /// It is at a port of its own, which only the file can tell.
  bool separate_port = false;
  std::vector<Series> series = {};
  MetricNames names{{}};                       ///< of the series, each once
  std::vector<std::size_t> name_indices = {};  ///< by series: which of the names it has
};

/// The dialect of an engine; for `generic`, and for what is no engine, the one that knows the names
/// of all, without a path.
const MetricsDialect& metrics_dialect_of(std::string_view engine);

/// Where an engine that takes requests at `port` has its metrics, by its own conventions; `port`
/// where it is none that it would have by itself.
std::uint16_t metrics_port_of(std::string_view engine, std::uint16_t port);

/// A path that must not be read for metrics: trtllm-serve's own /metrics is consumed by reading,
/// and is JSON.
bool is_consumed_by_scrape(std::string_view engine, std::string_view path);

/// Reads one exposition, in pieces. Values that can't be true (DCGM's blanks, negative counts) are
/// unknown.
class EngineMetricsReader final : private SampleSink {
 public:
  explicit EngineMetricsReader(const MetricsDialect& dialect)
      : dialect_(dialect), reader_(dialect.names, *this) {}

  void read(std::string_view bytes) { reader_.read(bytes); }
  bool ended() const { return reader_.ended(); }
  bool has_partial_line() const { return reader_.has_partial_line(); }
  EngineMetrics reading() const;

 private:
  static constexpr std::size_t preference_levels = 3;
  struct Accumulator {
    double value = 0;
    std::uint32_t samples = 0;
    Aggregation aggregation = Aggregation::sum;
    std::map<std::string, double, std::less<>> groups = {};  // of a series that has some apart
  };
  static void add(Accumulator& accumulator, double value);

  void sample(std::size_t name_index, const Sample& sample) override;
  double value_of(Quantity quantity) const;

  const MetricsDialect& dialect_;
  ExpositionReader reader_;
  std::array<std::array<Accumulator, preference_levels>, quantity_count> accumulators_{};
  std::string scratch_;
};

}  // namespace evenkeel
