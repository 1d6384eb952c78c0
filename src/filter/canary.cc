#include "evenkeel/filter/canary.h"

#include <fmt/format.h>

#include <algorithm>
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

bool is_of(const RouteCanary& canary, std::string_view backend) {
  return canary.backends.empty() || canary.backends.contains(backend);
}

/// True if a backend of the canary was asked.
bool was_asked(const RouteCanary& canary, const AttemptList& attempts) {
  return std::ranges::any_of(
      attempts, [&](const AttemptRecord& each) { return is_of(canary, each.backend); });
}

/// True if the canary was not asked because it has no backend, or no room. Sessions may be pinned
/// to other backends, and what was refused before says nothing of it.
bool is_missing(const RouteCanary& canary, const RequestInfo& info) {
  const RequestOutcome& outcome = info.outcome;
  if (info.identity.pool != canary.pool || outcome.source == AnswerSource::stale) return true;
  if (outcome.fault == Fault::no_backend || outcome.fault == Fault::queue_full ||
      outcome.fault == Fault::queue_timeout)
    return true;
  return !outcome.attempts.empty() && canary.is_served && !canary.is_served();
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
  const Duration waited =
      first_token.value_or(ended - info.timings.started - info.timings.awaited_body);
  bool failed = false;
  if (!was_asked(*canary, outcome.attempts)) {
    if (!is_missing(*canary, info)) return;
    failed = true;
  } else if (has_left(outcome)) {
    const Duration ttft = canary->trial->bounds().ttft;
    if (!first_token && (ttft == Duration{} || waited <= ttft)) return;
  } else {
    const bool is_elsewhere = identity.pool != canary->pool || !is_of(*canary, outcome.backend);
    failed = is_elsewhere || is_failure(outcome);
  }
  if (canary->trial->count(failed, waited, ended)) log_end(*canary, ended);
}

}  // namespace evenkeel
