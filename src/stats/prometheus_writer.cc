#include "prometheus_writer.h"

#include <array>
#include <charconv>
#include <cmath>

namespace evenkeel {
namespace {

/// `quotes`: also escapes those, as in the value of a label.
void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

void append_label(std::string& out, Label label) {
  out += label.name;
  out += "=\"";
  append_escaped(out, label.value, true);
  out += '"';
}

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_double(std::string& out, double number) {
  if (std::isnan(number)) {
    out += "NaN";
  } else if (std::isinf(number)) {
    out += number > 0 ? "+Inf" : "-Inf";
  } else {
    append_number(out, number);
  }
}

}  // namespace

Labels::Labels(std::initializer_list<Label> labels) {
  for (const Label& label : labels) {
    if (!text_.empty()) text_ += ',';
    append_label(text_, label);
  }
}

void PrometheusWriter::counters(std::string_view name, std::string_view help) {
  begin("evenkeel_", name, help, "counter");
}

void PrometheusWriter::gauges(std::string_view name, std::string_view help) {
  begin("evenkeel_", name, help, "gauge");
}

void PrometheusWriter::histograms(std::string_view name, std::string_view help) {
  begin("evenkeel_", name, help, "histogram");
}

void PrometheusWriter::unprefixed_counters(std::string_view name, std::string_view help) {
  begin("", name, help, "counter");
}

void PrometheusWriter::unprefixed_gauges(std::string_view name, std::string_view help) {
  begin("", name, help, "gauge");
}

void PrometheusWriter::begin(std::string_view prefix, std::string_view name, std::string_view help,
                             std::string_view type) {
  name_.assign(prefix).append(name);
  text_.append("# HELP ").append(name_) += ' ';
  append_escaped(text_, help, false);
  text_.append("\n# TYPE ").append(name_).append(" ").append(type) += '\n';
}

/// Everything of a line up to its value.
void PrometheusWriter::series(std::string_view suffix, std::string_view labels, Label extra) {
  text_.append(name_).append(suffix);
  if (!labels.empty() || !extra.name.empty()) {
    text_ += '{';
    text_ += labels;
    if (!labels.empty() && !extra.name.empty()) text_ += ',';
    if (!extra.name.empty()) append_label(text_, extra);
    text_ += '}';
  }
  text_ += ' ';
}

template <class Number>
void PrometheusWriter::value(Number number) {
  append_number(text_, number);
  text_ += '\n';
}

void PrometheusWriter::add(const Labels& labels, std::uint64_t number) {
  series("", labels.text(), {});
  value(number);
}

void PrometheusWriter::add(const Labels& labels, std::int64_t number) {
  series("", labels.text(), {});
  value(number);
}

void PrometheusWriter::add(const Labels& labels, double number) {
  series("", labels.text(), {});
  append_double(text_, number);
  text_ += '\n';
}

void PrometheusWriter::add(const Labels& labels, Label extra, std::uint64_t number) {
  series("", labels.text(), extra);
  value(number);
}

void PrometheusWriter::add(const Labels& labels, const HistogramTotals& totals) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < totals.bounds.size(); ++i) {
    below += totals.counts[i];
    std::array<char, 32> bound;
    const double seconds = static_cast<double>(totals.bounds[i]) / 1e9;
    const auto end = std::to_chars(bound.data(), bound.data() + bound.size(), seconds).ptr;
    series("_bucket", labels.text(),
           {"le", std::string_view(bound.data(), static_cast<std::size_t>(end - bound.data()))});
    value(below);
  }
  below += totals.counts.back();
  series("_bucket", labels.text(), {"le", "+Inf"});
  value(below);
  series("_sum", labels.text(), {});
  append_double(text_, totals.sum_seconds);
  text_ += '\n';
  series("_count", labels.text(), {});
  value(below);
}

}  // namespace evenkeel
