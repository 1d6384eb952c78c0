#include "load/request_result.h"

#include <utility>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

std::string_view failure_kind(Fault fault, bool response_started) {
  switch (fault) {
    case Fault::connect_failed:
    case Fault::connect_timeout: return "connect";
    case Fault::first_byte_timeout:
    case Fault::idle_timeout:
    case Fault::write_timeout:
    case Fault::header_timeout:
    case Fault::body_timeout: return "timeout";
    case Fault::backend_closed:
    case Fault::client_gone: return response_started ? "truncated" : "reset";
    case Fault::backend_protocol: return "protocol";
    default: return to_string(fault);
  }
}

std::string failure_example(const Error& error) {
  return std::string(to_string(error.fault)) + ": " + error.detail;
}

}  // namespace

std::optional<Duration> RequestResult::per_token() const {
  if (content_events < 2 || output_tokens < 2) return std::nullopt;
  return (last_content_at - first_content_at) / static_cast<Duration::rep>(output_tokens - 1);
}

void RequestResult::fail(std::string_view what, std::string why) {
  if (!kind.empty()) return;
  kind = what;
  example = std::move(why);
}

void RequestResult::fail(const Error& error, bool response_started) {
  fail(failure_kind(error.fault, response_started), failure_example(error));
}

void RequestResult::use(const ResponseUsage& usage) {
  output_tokens = usage.completion_tokens.value_or(output_tokens);
  cached_tokens = usage.cached_tokens.value_or(0);
}

bool meets_targets(const LoadOptions& options, Instant due, const RequestResult& result) {
  if (!options.has_targets() || result.content_events == 0) return false;
  const bool in_time =
      options.ttft_slo == Duration::zero() || result.first_content_at - due <= options.ttft_slo;
  return in_time && (options.tpot_slo == Duration::zero() ||
                     result.per_token().value_or(Duration::zero()) <= options.tpot_slo);
}

std::string log_line(const LoadRequest& load_request, Duration due_in, Instant due,
                     const RequestResult& result) {
  std::optional<double> first_token;
  std::optional<double> per_token;
  if (result.content_events != 0) first_token = seconds_of(result.first_content_at - due);
  if (const auto time = result.per_token()) per_token = seconds_of(*time);
  std::optional<std::string_view> error;
  if (!result.kind.empty()) error = result.kind;
  return json_text(JsonValue::Object{{"index", load_request.index},
                                     {"due_seconds", seconds_of(due_in)},
                                     {"started_seconds", seconds_of(result.started - due)},
                                     {"ttft_seconds", first_token},
                                     {"tpot_seconds", per_token},
                                     {"e2e_seconds", seconds_of(result.end - due)},
                                     {"prompt_tokens", load_request.prompt_tokens},
                                     {"cached_tokens", result.cached_tokens},
                                     {"output_tokens", result.output_tokens},
                                     {"backend", result.backend},
                                     {"error", error}}) +
         "\n";
}

}  // namespace evenkeel
