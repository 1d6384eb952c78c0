#include "evenkeel/stats/metrics_page.h"

#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <ostream>
#include <streambuf>
#include <utility>
#include <vector>

#include "open_metrics.h"

namespace evenkeel {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// Appends to a string: std::ostringstream would copy pages of megabytes as they grow.
class StringSink final : public std::streambuf {
 public:
  std::string text;

 private:
  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) text += static_cast<char>(c);
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    text.append(data, static_cast<std::size_t>(size));
    return size;
  }
};

std::string serialize(const std::vector<MetricFamily>& families) {
  StringSink sink;
  std::ostream out(&sink);
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(sink.text);
}

void begin_family(std::vector<MetricFamily>& families, std::string_view name, std::string_view help,
                  MetricType type) {
  // Families of a page list the same backends: the last one's size is the best guess.
  const std::size_t expected = families.empty() ? 0 : families.back().metric.size();
  families.push_back({std::string(name), std::string(help), type, {}});
  families.back().metric.reserve(expected);
}

ClientMetric& add_series(std::vector<MetricFamily>& families, const Labels& labels,
                         std::size_t extra = 0) {
  ClientMetric& series = families.back().metric.emplace_back();
  series.label.reserve(labels.items().size() + extra);
  for (const auto& [name, value] : labels.items()) series.label.push_back({name, value});
  return series;
}

void set_value(ClientMetric& series, MetricType type, double value) {
  switch (type) {
    case MetricType::Counter: series.counter.value = value; break;
    case MetricType::Gauge: series.gauge.value = value; break;
    default: series.untyped.value = value; break;
  }
}

}  // namespace

struct MetricsPage::Families {
  std::vector<MetricFamily> list;
  std::vector<SeriesExemplars> exemplars;  // in the order of the list
};

std::string_view content_type_of(MetricsFormat format) {
  return format == MetricsFormat::text
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

Labels::Labels(std::initializer_list<Label> labels) {
  items_.reserve(labels.size());
  for (const Label& label : labels) items_.emplace_back(label.name, label.value);
}

MetricsPage::MetricsPage() : families_(std::make_unique<Families>()) {}
MetricsPage::MetricsPage(MetricsPage&&) noexcept = default;
MetricsPage& MetricsPage::operator=(MetricsPage&&) noexcept = default;
MetricsPage::~MetricsPage() = default;

void MetricsPage::counters(std::string_view name, std::string_view help) {
  begin_family(families_->list, name, help, MetricType::Counter);
}

void MetricsPage::gauges(std::string_view name, std::string_view help) {
  begin_family(families_->list, name, help, MetricType::Gauge);
}

void MetricsPage::histograms(std::string_view name, std::string_view help) {
  begin_family(families_->list, name, help, MetricType::Histogram);
}

void MetricsPage::add(const Labels& labels, double value) {
  ClientMetric& series = add_series(families_->list, labels);
  set_value(series, families_->list.back().type, value);
}

void MetricsPage::add(const Labels& labels, Label extra, std::uint64_t value) {
  ClientMetric& series = add_series(families_->list, labels, 1);
  series.label.push_back({std::string(extra.name), std::string(extra.value)});
  set_value(series, families_->list.back().type, static_cast<double>(value));
}

void MetricsPage::add(const Labels& labels, const HistogramTotals& totals) {
  std::vector<double> bounds;
  bounds.reserve(totals.bounds.size());
  for (const std::uint64_t bound : totals.bounds)
    bounds.push_back(static_cast<double>(bound) / 1e9);
  add_histogram(labels, bounds, totals.counts, totals.sum_seconds);
  if (totals.exemplars.empty()) return;
  families_->exemplars.push_back({.family = families_->list.size() - 1,
                                  .series = families_->list.back().metric.size() - 1,
                                  .of_buckets = totals.exemplars});
}

void MetricsPage::add_histogram(const Labels& labels, std::span<const double> bounds,
                                std::span<const std::uint64_t> counts, double sum) {
  ClientMetric::Histogram& histogram = add_series(families_->list, labels).histogram;
  histogram.bucket.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    histogram.sample_count += counts[i];
    const bool last = i == bounds.size();
    histogram.bucket.push_back(
        {histogram.sample_count, last ? std::numeric_limits<double>::infinity() : bounds[i]});
  }
  histogram.sample_sum = sum;
}

std::string MetricsPage::take_text(MetricsFormat format) {
  const Families families = std::exchange(*families_, {});
  return format == MetricsFormat::text ? serialize(families.list)
                                       : open_metrics_text(families.list, families.exemplars);
}

}  // namespace evenkeel
