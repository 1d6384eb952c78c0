// The families of one scrape, in prometheus-cpp's terms.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/stats/histogram.h"

namespace evenkeel {

/// Collects families and their series. A series belongs to the family that was begun last.
class Page {
 public:
  using Label = prometheus::ClientMetric::Label;
  using Labels = std::vector<Label>;

  /// Names get the prefix `evenkeel_`.
  void counters(std::string_view name, std::string_view help);
  void gauges(std::string_view name, std::string_view help);
  void histograms(std::string_view name, std::string_view help);
  /// Families whose names the whole world shares, as they are.
  void plain_counters(std::string_view name, std::string_view help);
  void plain_gauges(std::string_view name, std::string_view help);

  /// A series of a family of counters or gauges.
  template <class Number>
  void add(Labels labels, Number value) {
    add_value(std::move(labels), static_cast<double>(value));
  }
  void add(Labels labels, const HistogramTotals& totals);

  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  void begin(std::string name, std::string_view help, prometheus::MetricType type);
  void add_value(Labels labels, double value);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace evenkeel
