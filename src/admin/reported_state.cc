#include "evenkeel/admin/reported_state.h"

#include <map>
#include <utility>

#include "evenkeel/pool/few_requests.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

/// Why a backend that is up gets fewer requests than others; empty: it does not.
std::string restriction_of(const PoolState& pool, const Backend& backend, Instant now) {
  const BackendState& state = backend.state();
  switch (state.why()) {
    case Avoidance::ejected:
      return (pool.panics() ? "its ejection is ignored, since too few others are fit: "
                            : "on trial after ") +
             describe_ejection(state);
    case Avoidance::silent: return "avoided: it answers no request while others do";
    case Avoidance::overloaded:
      if (state.avoided(now)) return "avoided: it said that it is overloaded";
      break;
    default: break;
  }
  const std::uint32_t limit = backend.slots().limit();
  if (limit == backend.spec().max_in_flight) return {};
  return "slow start: at most " + std::to_string(limit) + " in flight";
}

/// Returns nothing for errors that may be the mistakes of a client, as what is malformed is.
std::string describe_client_errors(BackendStats::ClientErrors errors) {
  constexpr std::uint32_t min_in_a_row = 10;
  const int status = errors.status;
  const bool is_elsewhere = status == 401 || status == 403 || status == 404 || status == 405;
  if (!is_elsewhere || errors.in_a_row < min_in_a_row) return {};
  return "answers " + std::to_string(errors.status) +
         " to each request: " + std::to_string(errors.in_a_row) + " in a row";
}

}  // namespace

std::string_view state_of(const Backend& backend, Instant now) {
  const BackendState& state = backend.state();
  if (state.is_out(OutOfRotation::draining)) return "draining";
  if (state.is_out(OutOfRotation::unresolved) || state.is_out(OutOfRotation::unhealthy))
    return "down";
  if (state.is_out(OutOfRotation::starting)) return "starting";
  if (state.unreachable(now)) return "down";
  if (state.is_out(OutOfRotation::sleeping)) return "sleeping";
  if (state.is_out(OutOfRotation::ejected)) return "ejected";
  if (state.is_out(OutOfRotation::standby)) return "standby";
  return "up";
}

std::string reason_of(const PoolState& pool, const Backend& backend,
                      const BackendStatus* backend_status, Instant now) {
  const BackendState& state = backend.state();
  if (state.is_out(OutOfRotation::draining)) return "drained by an operator";
  if (state.is_out(OutOfRotation::unresolved)) return "its name has no address";
  if (state.is_out(OutOfRotation::unhealthy) || state.is_out(OutOfRotation::starting)) {
    const bool has_reason = backend_status != nullptr && !backend_status->health.reason.empty();
    return has_reason ? backend_status->health.reason : "its first health check has not ended";
  }
  if (state.unreachable(now)) return to_string(state.details().connect_fault);
  if (state.is_out(OutOfRotation::sleeping)) {
    return "its engine sleeps, and holds requests until it is woken";
  }
  if (state.is_out(OutOfRotation::ejected)) return describe_ejection(state);
  if (state.is_out(OutOfRotation::standby)) return "a standby that its pool does not need now";
  std::string restriction = restriction_of(pool, backend, now);
  if (!restriction.empty()) return restriction;
  if (backend_status != nullptr && !backend_status->models_problem.empty()) {
    return "its list of models is not known: " + backend_status->models_problem;
  }
  std::string refusal = describe_client_errors(backend.stats().client_errors());
  if (!refusal.empty()) return refusal;
  const Slowness slowness = backend.findings().slowness();
  std::string few = describe_few_requests(pool, backend, now);
  if (slowness.ratio == 0) return few;
  return few.empty() ? describe_slowness(slowness) : describe_slowness(slowness) + "; " + few;
}

std::vector<BackendStateHistory::Change> BackendStateHistory::update(
    const std::shared_ptr<const PoolSet>& pool_set, Instant now, Time time) {
  std::vector<Change> changes;
  if (pool_set != pool_set_) carry_over(pool_set);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Backends& backends = pool_set->pools()[i].state->backends();
    for (std::size_t j = 0; j < backends.size(); ++j) {
      const std::string_view state = state_of(*backends[j], now);
      Entry& entry = entries_[i][j];
      if (entry.state == state) continue;
      if (!entry.state.empty()) changes.push_back({i, j, entry.state, state});
      entry = {state, time};
    }
  }
  return changes;
}

void BackendStateHistory::carry_over(const std::shared_ptr<const PoolSet>& pool_set) {
  std::map<std::pair<std::string_view, std::string_view>, Entry> previous;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const PoolState& pool = *pool_set_->pools()[i].state;
    for (std::size_t j = 0; j < entries_[i].size(); ++j) {
      previous[{pool.config().name, pool.backends()[j]->id()}] = entries_[i][j];
    }
  }
  std::vector<std::vector<Entry>> entries;
  for (const PoolSet::PoolEntry& pool_entry : pool_set->pools()) {
    std::vector<Entry>& own = entries.emplace_back();
    for (const BackendPtr& backend : pool_entry.state->backends()) {
      own.push_back(previous[{pool_entry.state->config().name, backend->id()}]);
    }
  }
  entries_ = std::move(entries);
  pool_set_ = pool_set;  // last: `previous` has views into the one before
}

}  // namespace evenkeel
