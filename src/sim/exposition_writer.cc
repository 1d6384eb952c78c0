#include "sim/exposition_writer.h"

namespace evenkeel {

std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  out += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

void ExpositionWriter::write(std::string_view name, std::string_view suffix,
                             std::string_view labels, double value) {
  text_ += name;
  text_ += suffix;
  if (!common_.empty() || !labels.empty()) {
    text_ += '{';
    text_ += common_;
    if (!common_.empty() && !labels.empty()) text_ += ',';
    text_ += labels;
    text_ += '}';
  }
  fmt::format_to(to(), " {}\n", value);
}

void ExpositionWriter::histogram(std::string_view name, std::string_view help,
                                 const PrometheusHistogram& histogram) {
  write_family(name, "histogram", help);
  for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
    write(name, "_bucket", fmt::format("le=\"{}\"", histogram.bounds()[i]),
          static_cast<double>(histogram.cumulative(i)));
  }
  write(name, "_bucket", "le=\"+Inf\"", static_cast<double>(histogram.count()));
  write(name, "_sum", {}, histogram.sum());
  write(name, "_count", {}, static_cast<double>(histogram.count()));
}

}  // namespace evenkeel
