#include "open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>

namespace evenkeel {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view total_suffix = "_total";
constexpr std::string_view info_suffix = "_info";
constexpr double max_exact = 9007199254740992;  // 2^53: integers below it are exact

std::string_view without(std::string_view name, std::string_view suffix) {
  return name.substr(0, name.size() - suffix.size());
}

/// How a family is declared.
struct Declaration {
  std::string_view name;
  std::string_view type;
};

using Names = std::set<std::string_view>;

Declaration declaration_of(const MetricFamily& family, const Names& names) {
  const std::string_view name = family.name;
  switch (family.type) {
    case MetricType::Counter:
      if (name.ends_with(total_suffix) && !names.contains(without(name, total_suffix)))
        return {without(name, total_suffix), "counter"};
      return {name, "unknown"};
    case MetricType::Gauge:
      if (name.ends_with(info_suffix)) return {without(name, info_suffix), "info"};
      return {name, "gauge"};
    case MetricType::Histogram: return {name, "histogram"};
    default: return {name, "unknown"};
  }
}

/// The unit that ends the name; empty: none that OpenMetrics knows.
std::string_view unit_of(const Declaration& declaration) {
  if (declaration.type == "info") return {};
  constexpr std::array<std::string_view, 3> units = {"_seconds", "_bytes", "_ratio"};
  for (const std::string_view unit : units) {
    if (declaration.name.ends_with(unit)) return unit.substr(1);
  }
  return {};
}

class OpenMetricsWriter {
 public:
  void declare(const MetricFamily& family, const Declaration& declaration);
  void write_value(const MetricFamily& family, const ClientMetric& series);
  /// `exemplars` null: there are none.
  void write_histogram(const MetricFamily& family, const ClientMetric& series,
                       const std::vector<Exemplar>* exemplars);
  std::string take() {
    text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  template <class... Values>
  void write(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }
  void write_escaped(std::string_view text);
  void write_number(double value);
  /// Name and labels, one of which may be a bucket's bound.
  void begin_sample(const MetricFamily& family, std::string_view suffix, const ClientMetric& series,
                    const double* bound = nullptr);
  void write_bound(double bound);
  void write_exemplar(const Exemplar& exemplar);

  std::string text_;
};

void OpenMetricsWriter::write_escaped(std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '\\': text_ += "\\\\"; break;
      case '"': text_ += "\\\""; break;
      case '\n': text_ += "\\n"; break;
      default: text_ += c;
    }
  }
}

void OpenMetricsWriter::write_number(double value) {
  if (std::isnan(value)) {
    text_ += "NaN";
  } else if (std::isinf(value)) {
    text_ += value > 0 ? "+Inf" : "-Inf";
  } else if (std::abs(value) < max_exact && value == std::trunc(value)) {
    write("{}", static_cast<std::int64_t>(value));
  } else {
    write("{}", value);
  }
}

/// Canonical numbers: the same bound has the same label in every program.
void OpenMetricsWriter::write_bound(double bound) {
  write_number(bound);
  if (bound == std::trunc(bound) && std::isfinite(bound)) text_ += ".0";
}

void OpenMetricsWriter::declare(const MetricFamily& family, const Declaration& declaration) {
  write("# TYPE {} {}\n", declaration.name, declaration.type);
  const std::string_view unit = unit_of(declaration);
  if (!unit.empty()) write("# UNIT {} {}\n", declaration.name, unit);
  write("# HELP {} ", declaration.name);
  write_escaped(family.help);
  text_ += '\n';
}

void OpenMetricsWriter::begin_sample(const MetricFamily& family, std::string_view suffix,
                                     const ClientMetric& series, const double* bound) {
  text_ += family.name;
  text_ += suffix;
  char separator = '{';
  for (const auto& label : series.label) {
    text_ += separator;
    text_ += label.name;
    text_ += "=\"";
    write_escaped(label.value);
    text_ += '"';
    separator = ',';
  }
  if (bound != nullptr) {
    text_ += separator;
    text_ += "le=\"";
    write_bound(*bound);
    text_ += '"';
    separator = ',';
  }
  if (separator == ',') text_ += '}';
  text_ += ' ';
}

void OpenMetricsWriter::write_value(const MetricFamily& family, const ClientMetric& series) {
  begin_sample(family, "", series);
  switch (family.type) {
    case MetricType::Counter: write_number(series.counter.value); break;
    case MetricType::Gauge: write_number(series.gauge.value); break;
    default: write_number(series.untyped.value); break;
  }
  text_ += '\n';
}

void OpenMetricsWriter::write_exemplar(const Exemplar& exemplar) {
  if (!exemplar.exists()) return;
  write(" # {{trace_id=\"{}\"}} {} {}.{:03}",
        std::string_view(exemplar.trace_id.data(), exemplar.trace_id.size()),
        static_cast<double>(exemplar.value) / 1e9, exemplar.time / 1000, exemplar.time % 1000);
}

void OpenMetricsWriter::write_histogram(const MetricFamily& family, const ClientMetric& series,
                                        const std::vector<Exemplar>* exemplars) {
  const ClientMetric::Histogram& histogram = series.histogram;
  for (std::size_t i = 0; i < histogram.bucket.size(); ++i) {
    const ClientMetric::Bucket& bucket = histogram.bucket[i];
    begin_sample(family, "_bucket", series, &bucket.upper_bound);
    write("{}", bucket.cumulative_count);
    if (exemplars != nullptr && i < exemplars->size()) write_exemplar((*exemplars)[i]);
    text_ += '\n';
  }
  begin_sample(family, "_count", series);
  write("{}\n", histogram.sample_count);
  begin_sample(family, "_sum", series);
  write_number(histogram.sample_sum);
  text_ += '\n';
}

}  // namespace

std::string open_metrics_text(const std::vector<MetricFamily>& families,
                              const std::vector<SeriesExemplars>& exemplars) {
  Names names;
  for (const MetricFamily& family : families) names.insert(family.name);
  OpenMetricsWriter writer;
  auto next = exemplars.begin();
  for (std::size_t i = 0; i < families.size(); ++i) {
    const MetricFamily& family = families[i];
    writer.declare(family, declaration_of(family, names));
    for (std::size_t at = 0; at < family.metric.size(); ++at) {
      const ClientMetric& series = family.metric[at];
      if (family.type != MetricType::Histogram) {
        writer.write_value(family, series);
        continue;
      }
      const bool has_exemplars = next != exemplars.end() && next->family == i && next->series == at;
      writer.write_histogram(family, series, has_exemplars ? &next->of_buckets : nullptr);
      if (has_exemplars) ++next;
    }
  }
  return writer.take();
}

}  // namespace evenkeel
