// Reads from the metrics pages of inference engines their load, and what they say of themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/engine_report.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/inference/engine.h"
#include "evenkeel/inference/exposition.h"
#include "evenkeel/inference/metric_series.h"

namespace evenkeel {

/// The series that one engine's page may have, indexed by name.
struct SeriesIndex {
  explicit SeriesIndex(std::vector<Series> all);

  std::vector<Series> series;
  std::vector<std::size_t> name_indices;  ///< by series: its name's position in `names`
  MetricNames names;                      ///< of the series, each once
};

/// The engine's own series, or those of all engines where its entry says so. Thread: any.
const SeriesIndex& series_of(const Engine& engine);

/// The metrics port of an engine that takes requests at `port`, by its conventions; `port` itself
/// if it is none of the engine's default ports.
std::uint16_t metrics_port_of(const Engine& engine, std::uint16_t port);

/// True if the path must not be polled, since reading it consumes its data.
bool is_consumed_by_scrape(const Engine& engine, std::string_view path);

/// Parses one page, in pieces. Impossible values (DCGM's blanks, negative counts) are unknown.
class EngineMetricsReader final : private SampleSink {
 public:
  explicit EngineMetricsReader(const Engine& engine)
      : index_(series_of(engine)), reader_(index_.names, *this) {}

  void read(std::string_view bytes) { reader_.read(bytes); }
  bool ended() const { return reader_.ended(); }
  bool has_partial_line() const { return reader_.has_partial_line(); }
  LoadSample reading() const;
  EngineReport report() const;

 private:
  static constexpr std::size_t preference_levels = 3;
  struct Accumulator {
    double value = 0;
    std::uint32_t samples = 0;
    Aggregation aggregation = Aggregation::sum;
    std::map<std::string, double, std::less<>> groups =
        {};  // by label, of a series with `group_by`
  };
  static void add(Accumulator& accumulator, double value);

  void sample(std::size_t name_index, const Sample& sample) override;
  void add(const Series& series, const Sample& sample);
  void read_adapters(const AdapterLabels& labels, const Sample& sample);
  void note_use(std::uint64_t adapter, double at);
  std::optional<double> value_of(const Series& series, const Sample& sample);
  double value_of(Quantity quantity) const;

  const SeriesIndex& index_;
  ExpositionReader reader_;
  std::array<std::array<Accumulator, preference_levels>, quantity_count> accumulators_{};
  std::optional<AdapterReport> adapters_;
  double adapters_updated_ = 0;
  struct AdapterUse {
    std::uint64_t adapter = 0;
    double at = 0;  // the last time that the page tells of
  };
  std::vector<AdapterUse> adapter_uses_;
  std::string scratch_;
};

}  // namespace evenkeel
