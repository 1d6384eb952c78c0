#include "evenkeel/proxy/retry_policy.h"

#include <algorithm>
#include <string_view>

#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

constexpr int too_many_requests = 429;
constexpr int internal_server_error = 500;
constexpr int bad_gateway = 502;
constexpr int service_unavailable = 503;
constexpr int gateway_timeout = 504;

bool is_overload(int status) {
  return status == too_many_requests || status == service_unavailable;
}
bool is_gateway_error(int status) {
  return status == bad_gateway || status == service_unavailable || status == gateway_timeout;
}

}  // namespace

RetryPolicy::RetryPolicy(const RetryRules& rules)
    : attempts(rules.attempts),
      backoff_base(rules.backoff.base),
      backoff_max(rules.backoff.max),
      attempt_timeout(rules.attempt_timeout),
      within(rules.within),
      replay_bytes(rules.replay_bytes),
      idempotency_key(rules.idempotency_key) {
  for (const RetryOn cause : rules.on) causes_ |= 1U << static_cast<unsigned>(cause);
}

bool RetryPolicy::retries(const ErrorAnswer& answer, const EngineRefusals& refusals,
                          bool idempotent) const {
  const int status = answer.status;
  if (is_overload(status) && (refusals.overload || has(RetryOn::overload))) return true;
  if (is_gateway_error(status) && (idempotent || has(RetryOn::gateway_error))) return true;
  if (status >= 500 && has(RetryOn::server_error)) return true;
  const bool engine_failed = status == internal_server_error || status == bad_gateway;
  return engine_failed && answer.early && refusals.early_errors;
}

bool RetryPolicy::retries(const Error& error, bool idempotent) const {
  if (error.side != Side::backend) return false;
  switch (error.fault) {
    case Fault::backend_closed: return idempotent || has(RetryOn::reset);
    case Fault::first_byte_timeout: return idempotent || has(RetryOn::timeout);
    default: return false;
  }
}

bool RetryPolicy::is_idempotent(const Request& request) const {
  constexpr std::string_view methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
  if (std::ranges::find(methods, request.method) != std::end(methods)) return true;
  return idempotency_key && request.fields.value("idempotency-key");
}

int status_of_answer(const Request& request, const Response& response) {
  if (!request.info.outcome.grpc_status || response.status != 200) return response.status;
  const auto code = response.fields.value("grpc-status");
  const auto status = code ? parse_grpc_status(*code) : std::nullopt;
  if (status == GrpcStatus::unavailable) return service_unavailable;
  if (status == GrpcStatus::resource_exhausted) return too_many_requests;
  return response.status;
}

}  // namespace evenkeel
