#include "evenkeel/filter/canary.h"

#include <fmt/format.h>

#include <optional>

#include "evenkeel/base/fault_table.h"
#include "evenkeel/base/log.h"
#include "evenkeel/stats/span_formatter.h"

namespace evenkeel {
namespace {

/// When the first output came, else the first byte; nothing: none did.
std::optional<Duration> first_token_of(const RequestInfo& info) {
  const Duration not_ours = info.timings.started.time_since_epoch() + info.timings.awaited_body;
  if (info.inference != nullptr && info.inference->response.output_events > 0)
    return info.inference->response.first_output.time_since_epoch() - not_ours;
  if (info.timings.first_byte == Instant{}) return std::nullopt;
  return info.timings.first_byte.time_since_epoch() - not_ours;
}

bool has_left(const RequestOutcome& outcome) {
  return outcome.status == 0 || outcome.fault == Fault::client_gone ||
         outcome.fault == Fault::write_timeout;
}

/// True if servers are at fault.
bool is_failure(const RequestOutcome& outcome) {
  if (outcome.fault) return entry_of(*outcome.fault).side != "client";
  return outcome.source == AnswerSource::stale ||
         has_failed(outcome.status, false, outcome.grpc_status);
}

void log_end(const RouteCanary& canary, Instant now) {
  const auto counts = canary.trial->counts(now);
  const CanaryBounds& bounds = canary.trial->bounds();
  const bool failed = canary.trial->verdict() == CanaryVerdict::too_many_errors;
  log::outlier.warning(fmt::format(
      "route {}: the canary {} gets no more requests: of {} within {:.0f} s {} {} (bound: {}); "
      "`evenkeel ctl canaries --restart ROUTE` begins again",
      canary.route, canary.target, counts.requests, seconds_of(bounds.window),
      failed ? counts.failures : counts.slow, failed ? "failed" : "had a late first token",
      failed ? fmt::format("{:.3g} %", 100 * bounds.error_rate)
             : fmt::format("95 % within {:.3g} s", seconds_of(bounds.ttft))));
}

}  // namespace

void CanaryCounter::count(const RequestInfo& info, Instant ended) const {
  const RequestIdentity& identity = info.identity;
  const RequestOutcome& outcome = info.outcome;
  if (identity.routing.state != RouteState::routed) return;
  const RouteCanary* const canary = canaries_.find(identity);
  if (canary == nullptr || identity.routing.target != canary->number) return;
  const bool is_copy =
      outcome.source == AnswerSource::hit || outcome.source == AnswerSource::coalesced;
  if (is_copy || outcome.fault == Fault::draining) return;
  const auto first_token = first_token_of(info);
  bool failed = false;
  Duration waited{};
  if (has_left(outcome)) {
    waited = first_token.value_or(ended - info.timings.started - info.timings.awaited_body);
    if (!first_token && waited <= canary->trial->bounds().ttft) return;
  } else {
    failed = identity.pool != canary->pool || is_failure(outcome);  // another pool: by a fallback
    waited = first_token.value_or(Duration{});
  }
  if (canary->trial->count(failed, waited, ended)) log_end(*canary, ended);
}

}  // namespace evenkeel
