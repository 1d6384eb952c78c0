#include "evenkeel/inference/load_report.h"

#include <proto/orca.pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/json/value.h"
#include "inference/valid_values.h"

namespace evenkeel {
namespace {

/// No engine sends a tenth of that.
constexpr std::size_t max_bytes = 8192;

/// Collects values by name. An engine with several ranks may repeat a name.
class ReportReader {
 public:
  void add(std::string_view name, double value) {
    if (name == "kv_cache_usage_perc" || name == "kv_cache_utilization") {
      const double ratio = valid_ratio(value);
      if (std::isnan(ratio)) return;
      double& known = report_.kv_cache_ratio;
      known = std::isnan(known) ? ratio : std::max(known, ratio);
    } else if (name == "num_requests_waiting") {
      count(report_.waiting, value);
    } else if (name == "num_requests_running") {
      count(report_.running, value);
    }
  }
  std::optional<LoadSample> take() const {
    return report_.any() ? std::optional(report_) : std::nullopt;
  }

 private:
  static void count(double& known, double value) {
    if (!(value >= 0 && value <= max_requests)) return;
    known = std::isnan(known) ? value : known + value;
  }

  LoadSample report_;
};

/// "named_metrics.a=0.5, named_metrics.b:3"
std::optional<LoadSample> read_text(std::string_view text) {
  ReportReader reader;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = trimmed(text.substr(0, comma), " ");
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t separator = entry.find_first_of("=:");
    if (separator == std::string_view::npos) continue;
    std::string_view name = trimmed(entry.substr(0, separator), " ");
    name.remove_prefix(name.find('.') == std::string_view::npos ? 0 : name.find('.') + 1);
    const std::string_view digits = trimmed(entry.substr(separator + 1), " ");
    if (const auto value = parse_number<double>(digits)) reader.add(name, *value);
  }
  return reader.take();
}

std::optional<LoadSample> read_json(std::string_view text) {
  const auto document = parse_json(text);
  if (!document) return std::nullopt;
  ReportReader reader;
  for (const char* group : {"named_metrics", "utilization"}) {
    for (const auto& [name, value] : (*document)[group].members()) {
      if (const auto number = value.number()) reader.add(name, *number);
    }
  }
  return reader.take();
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Decodes base64 with or without padding, as gRPC's fields may have it.
std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  return bytes;
}

}  // namespace

std::optional<LoadSample> read_load_report(std::string_view value) {
  if (value.size() > max_bytes) return std::nullopt;
  value = trimmed(value, " ");
  const std::size_t space = value.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view format = value.substr(0, space);
  const std::string_view content = trimmed(value.substr(space), " ");
  if (equals_ignore_case(format, "TEXT")) return read_text(content);
  if (equals_ignore_case(format, "JSON")) return read_json(content);
  if (equals_ignore_case(format, "BIN")) return read_binary_load_report(content);
  return std::nullopt;
}

std::optional<LoadSample> read_binary_load_report(std::string_view value) {
  if (value.size() > max_bytes) return std::nullopt;
  const auto bytes = decode_base64(trimmed(value, " "));
  xds::data::orca::v3::OrcaLoadReport message;
  if (!bytes || !message.ParseFromString(*bytes)) return std::nullopt;
  ReportReader reader;
  for (const auto& [name, number] : message.named_metrics()) reader.add(name, number);
  for (const auto& [name, number] : message.utilization()) reader.add(name, number);
  return reader.take();
}

}  // namespace evenkeel
