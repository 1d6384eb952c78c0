// A metrics page as an engine writes it: its own names, every series with the same labels.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "evenkeel/stats/metrics_page.h"
#include "sim/server_statistics.h"

namespace evenkeel {

inline double number(std::uint64_t count) { return static_cast<double>(count); }

class EnginePage {
 public:
  /// Every series has the labels `common`, before its own.
  explicit EnginePage(Labels common = {}) : common_(std::move(common)) {}

  /// A family of one series.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    gauges(name, help);
    sample(value);
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    counters(name, help);
    sample(value);
  }
  void histogram(std::string_view name, std::string_view help, const PrometheusHistogram& values);

  /// A family of several series, which follow.
  void gauges(std::string_view name, std::string_view help) { page_.gauges(name, help); }
  void counters(std::string_view name, std::string_view help) { page_.counters(name, help); }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void sample(Number value, std::initializer_list<Label> labels = {}) {
    add(static_cast<double>(value), labels);
  }

  std::string take() { return page_.take_text(); }

 private:
  void add(double value, std::initializer_list<Label> labels);

  Labels common_;
  MetricsPage page_;
};

}  // namespace evenkeel
