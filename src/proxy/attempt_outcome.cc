#include "proxy/attempt_outcome.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

/// How long an overloaded backend wants to be left alone: `retry-after-ms`, or `retry-after` in
/// seconds. 0: it does not say, or gives a date.
Duration retry_after_of(const Fields& fields) {
  constexpr std::uint32_t day_ms = 24 * 60 * 60 * 1000;
  std::uint32_t value = 0;
  const auto read = [&value](std::string_view text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  for (const Field& field : fields) {
    if (equals_ignore_case(field.name(), "retry-after-ms") && read(field.value())) {
      return std::chrono::milliseconds(std::min(value, day_ms));
    }
  }
  const auto seconds = fields.value(FieldId::retry_after);
  if (!seconds || !read(*seconds)) return {};
  return std::chrono::seconds(std::min(value, day_ms / 1000));
}

bool precedes_ejection(const Load& load, Instant sent) {
  return load.ejection() != Ejection::none && sent < load.ejected_until() - load.ejected_for();
}

}  // namespace

AttemptResult classify_head(const Request& request, const Response& response) {
  AttemptResult result;
  if (response.status >= 400) [[unlikely]] {
    result = classify(response.status);
    result.safe_method = is_safe_method(request.method);
  } else if (request.info.outcome.grpc_status) {
    const auto status = response.fields.value("grpc-status");
    if (!status) return result;
    const GrpcStatus parsed = parse_grpc_status(*status).value_or(GrpcStatus::unknown);
    result = classify_grpc(static_cast<std::uint8_t>(parsed));
  }
  if (result.outcome == AttemptOutcome::overloaded) {
    result.retry_after = retry_after_of(response.fields);
  }
  return result;
}

AttemptResult classify_grpc(std::uint8_t status) {
  switch (static_cast<GrpcStatus>(status)) {
    case GrpcStatus::ok: return {};
    case GrpcStatus::resource_exhausted: return classify(429);
    case GrpcStatus::unavailable: return classify(503);
    case GrpcStatus::unknown:  // an exception in a Python server
    case GrpcStatus::internal:
    case GrpcStatus::data_loss: return classify(500);
    case GrpcStatus::cancelled:
    case GrpcStatus::deadline_exceeded: return {.outcome = AttemptOutcome::abandoned};
    default: return {.outcome = AttemptOutcome::client_error};
  }
}

void record_attempt(const Backend& backend, const AttemptResult& result, Instant sent,
                    Instant now) {
  Load& load = backend.load();
  if (!precedes_ejection(load, sent)) {
    AttemptResult recorded = result;
    recorded.sent = sent;
    return backend.record_outcome(recorded, now);
  }
  if (!counts_against_backend(result.outcome)) return;
  load.count_failure(now);
  if (result.status >= 500) load.count_failed_response();
}

}  // namespace evenkeel
