// A page of metrics in a format that Prometheus reads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/stats/histogram.h"

namespace evenkeel {

enum class MetricsFormat : std::uint8_t {
  text,          ///< Prometheus' text format 0.0.4
  open_metrics,  ///< OpenMetrics 1.0, with exemplars
};
inline constexpr std::size_t metrics_format_count = 2;

/// The value of content-type.
std::string_view content_type_of(MetricsFormat format);

/// A name and its value, unescaped.
struct Label {
  std::string_view name;
  std::string_view value;
};

/// The labels of a series, to be used with many families.
class Labels {
 public:
  Labels() = default;
  Labels(std::initializer_list<Label> labels);
  void add(Label label) { items_.emplace_back(label.name, label.value); }

  /// Name and value, unescaped, in the order given.
  const std::vector<std::pair<std::string, std::string>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

/// Collects families and their series. A series belongs to the family that was begun last.
///
/// Thread: one. Rendering 1000 backends takes tens of milliseconds: never on a data loop.
class MetricsPage {
 public:
  MetricsPage();
  MetricsPage(MetricsPage&&) noexcept;
  MetricsPage& operator=(MetricsPage&&) noexcept;
  ~MetricsPage();

  /// Begins a family. `name` is written as it is.
  void counters(std::string_view name, std::string_view help);
  void gauges(std::string_view name, std::string_view help);
  void histograms(std::string_view name, std::string_view help);

  /// A series of a family of counters or gauges. Integers above 2^53 are rounded.
  void add(const Labels& labels, double value);
  template <class Integer>
    requires std::is_integral_v<Integer>
  void add(const Labels& labels, Integer value) {
    add(labels, static_cast<double>(value));
  }
  /// The same, with one more label.
  void add(const Labels& labels, Label extra, std::uint64_t value);
  /// A series of a family of histograms.
  void add(const Labels& labels, const HistogramTotals& totals);
  /// The same; `counts` are per bucket (not cumulative) and one longer than `bounds`, whose last
  /// bucket holds what is above every bound. Bounds are in the unit of the metric.
  void add_histogram(const Labels& labels, std::span<const double> bounds,
                     std::span<const std::uint64_t> counts, double sum);

  /// The text so far; leaves the page empty.
  std::string take_text(MetricsFormat format = MetricsFormat::text);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace evenkeel
