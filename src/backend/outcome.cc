#include "evenkeel/backend/outcome.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t http2_protocol_error = 1;  // RFC 9113, section 7

AttemptOutcome outcome_of(const Error& error) {
  if (error.side != Side::backend) return AttemptOutcome::abandoned;
  switch (error.fault) {
    case Fault::connect_failed:
    case Fault::connect_timeout:
    case Fault::tls_failed: return AttemptOutcome::unreachable;
    case Fault::deadline_exceeded: return AttemptOutcome::abandoned;
    default: break;
  }
  // A backend may close an idle connection, may refuse streams while it shuts down, and need not
  // wait for a client for ever. It resets a stream with PROTOCOL_ERROR, before any answer, for what
  // it dislikes in the request.
  const bool harmless = error.not_processed || error.idle_close_race || error.awaited_client ||
                        error.reset_code == http2_protocol_error;
  return harmless ? AttemptOutcome::abandoned : AttemptOutcome::failed;
}

}  // namespace

AttemptResult classify(int status, Duration retry_after) {
  constexpr int too_many_requests = 429;
  constexpr int service_unavailable = 503;
  if (status == too_many_requests || status == service_unavailable) {
    return {.outcome = AttemptOutcome::overloaded, .status = status, .retry_after = retry_after};
  }
  const AttemptOutcome outcome = status < 400   ? AttemptOutcome::success
                                 : status < 500 ? AttemptOutcome::client_error
                                                : AttemptOutcome::failed;
  return {.outcome = outcome, .status = status};
}

AttemptResult classify(const Error& error) {
  return {.outcome = outcome_of(error), .fault = error.fault};
}

}  // namespace evenkeel
