#include "config/otel_variables.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/forms.h"
#include "evenkeel/base/ascii.h"

namespace evenkeel::config_file {
namespace {

class OtelVariables {
 public:
  OtelVariables(TracingConfig& tracing, ParseContext& context)
      : tracing_(tracing), context_(context) {}

  void read() {
    if (!context_.marks.contains("tracing.otlp")) read_collector();
    if (!tracing_.is_on()) return;
    if (!context_.marks.contains("tracing.sample")) read_sampler();
    tracing_.headers = either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
    tracing_.resource_attributes = value_of("OTEL_RESOURCE_ATTRIBUTES");
    tracing_.service_name = value_of("OTEL_SERVICE_NAME");
  }

 private:
  // Returns an empty text also for one that is not set, which means the same.
  std::string value_of(const std::string& name) const {
    if (!context_.environment.variable) return {};
    return context_.environment.variable(name).value_or(std::string());
  }
  std::string either(const std::string& first, const std::string& second) const {
    const std::string value = value_of(first);
    return value.empty() ? value_of(second) : value;
  }

  // Platforms set these variables for all that they run: where the file has no `tracing`, one that
  // cannot be used counts as unset, as the specification of OpenTelemetry has it.
  void fail(std::string_view name, std::string_view why, std::string_view help) const {
    std::string message = fmt::format("the environment variable {} {}", name, why);
    if (context_.marks.contains("tracing")) {
      context_.add("tracing", std::move(message), std::string(help));
    } else {
      const bool is_off = !tracing_.is_on();
      context_.warn("tracing", message + (is_off ? "; requests are not traced" : "; it is ignored"),
                    std::string(help));
    }
  }

  void read_collector() {
    if (lower_case(value_of("OTEL_SDK_DISABLED")) == "true") return;
    if (value_of("OTEL_TRACES_EXPORTER") == "none") return;
    std::string name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    std::string url = value_of(name);
    if (url.empty()) {
      name = "OTEL_EXPORTER_OTLP_ENDPOINT";
      url = value_of(name);
      if (url.empty()) return;
      if (url.back() == '/') url.pop_back();
      url += "/v1/traces";
    }
    if (check_url(url)) {
      return fail(name, "is not a URL that can be used",
                  "write http://host:port, or set 'tracing.otlp: off'");
    }
    const std::string protocol =
        either("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
    if (protocol == "grpc") {
      return fail("OTEL_EXPORTER_OTLP_PROTOCOL", "asks for gRPC, which is not supported",
                  "set it to http/json, with the collector's port for HTTP (4318)");
    }
    tracing_.otlp = url;
    context_.report.variables.add(url, name);
  }

  // The client's decision always counts, so `parentbased_` makes no difference.
  void read_sampler() {
    constexpr std::string_view prefix = "parentbased_";
    const std::string whole = value_of("OTEL_TRACES_SAMPLER");
    std::string_view sampler = whole;
    if (sampler.starts_with(prefix)) sampler.remove_prefix(prefix.size());
    if (sampler.empty() || sampler == "always_on") return;
    if (sampler == "always_off") {
      tracing_.sample = 0;
    } else if (sampler == "traceidratio") {
      read_ratio();
    } else {
      fail("OTEL_TRACES_SAMPLER", "names a sampler that is not supported",
           "take always_on, always_off or traceidratio, or write 'tracing.sample'");
    }
  }

  void read_ratio() {
    const std::string text = value_of("OTEL_TRACES_SAMPLER_ARG");
    if (text.empty()) return;
    double ratio = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
    if (error != std::errc() || end != text.data() + text.size() || !(ratio >= 0 && ratio <= 1)) {
      return fail("OTEL_TRACES_SAMPLER_ARG", "is not a number from 0 to 1", "write 0.01 for 1 %");
    }
    tracing_.sample = ratio;
  }

  TracingConfig& tracing_;
  ParseContext& context_;
};

}  // namespace

void read_otel_variables(TracingConfig& tracing, ParseContext& context) {
  OtelVariables(tracing, context).read();
}

}  // namespace evenkeel::config_file
