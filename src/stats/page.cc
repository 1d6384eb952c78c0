#include "page.h"

namespace evenkeel {
namespace {

using prometheus::MetricType;

std::string prefixed(std::string_view name) { return "evenkeel_" + std::string(name); }

}  // namespace

void Page::counters(std::string_view name, std::string_view help) {
  begin(prefixed(name), help, MetricType::Counter);
}

void Page::gauges(std::string_view name, std::string_view help) {
  begin(prefixed(name), help, MetricType::Gauge);
}

void Page::histograms(std::string_view name, std::string_view help) {
  begin(prefixed(name), help, MetricType::Histogram);
}

void Page::plain_counters(std::string_view name, std::string_view help) {
  begin(std::string(name), help, MetricType::Counter);
}

void Page::plain_gauges(std::string_view name, std::string_view help) {
  begin(std::string(name), help, MetricType::Gauge);
}

void Page::begin(std::string name, std::string_view help, MetricType type) {
  prometheus::MetricFamily& family = families_.emplace_back();
  family.name = std::move(name);
  family.help = help;
  family.type = type;
}

void Page::add_value(Labels labels, double value) {
  prometheus::ClientMetric& series = families_.back().metric.emplace_back();
  series.label = std::move(labels);
  if (families_.back().type == MetricType::Counter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
}

void Page::add(Labels labels, const HistogramTotals& totals) {
  prometheus::ClientMetric& series = families_.back().metric.emplace_back();
  series.label = std::move(labels);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < totals.bounds.size(); ++i) {
    below += totals.counts[i];
    series.histogram.bucket.push_back(
        {.cumulative_count = below, .upper_bound = static_cast<double>(totals.bounds[i]) / 1e9});
  }
  // The serializer adds the bucket of +Inf from the count.
  series.histogram.sample_count = below + totals.counts.back();
  series.histogram.sample_sum = totals.sum_seconds;
}

}  // namespace evenkeel
