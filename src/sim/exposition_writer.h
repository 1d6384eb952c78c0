// Writes Prometheus text 0.0.4.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "sim/server_statistics.h"

namespace evenkeel {

/// The value of a label, quoted and escaped: `name="value"`.
std::string label(std::string_view name, std::string_view value);

class ExpositionWriter {
 public:
  /// Labels that every sample has, ready to print; may be empty.
  explicit ExpositionWriter(std::string common = {}) : common_(std::move(common)) {}

  void write_family(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(to(), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void sample(std::string_view name, double value, std::string_view labels = {}) {
    write(name, "", labels, value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    write_family(name, "gauge", help);
    sample(name, value);
  }
  void counter(std::string_view name, std::string_view help, double value) {
    write_family(name, "counter", help);
    sample(name, value);
  }
  void histogram(std::string_view name, std::string_view help,
                 const PrometheusHistogram& histogram);

  std::string take() { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> to() { return std::back_inserter(text_); }
  void write(std::string_view name, std::string_view suffix, std::string_view labels, double value);

  std::string common_;
  std::string text_;
};

}  // namespace evenkeel
