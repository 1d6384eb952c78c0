#include "server/backend_state.h"

#include <map>
#include <utility>

#include "server/lookout.h"

namespace evenkeel {

std::string_view state_of(const Backend& backend, Instant now) {
  const Load& load = backend.load();
  if (load.closed(Closure::draining)) return "draining";
  if (load.closed(Closure::unresolved) || load.closed(Closure::unhealthy)) return "down";
  if (load.closed(Closure::starting)) return "starting";
  if (load.avoided(now)) return "down";
  if (load.closed(Closure::standby)) return "standby";
  return "up";
}

std::string reason_of(const Backend& backend, const Watched* watched, Instant now) {
  const Load& load = backend.load();
  if (load.closed(Closure::draining)) return "drained by an operator";
  if (load.closed(Closure::unresolved)) return "its name has no address";
  if (load.closed(Closure::unhealthy) || load.closed(Closure::starting)) {
    const bool told = watched != nullptr && !watched->health.reason.empty();
    return told ? watched->health.reason : "its first health check has not ended";
  }
  if (load.avoided(now)) return word_of(Fault::connect_failed);
  if (load.closed(Closure::standby)) return "a spare that its pool does not need now";
  return {};
}

void StateHistory::look(const std::shared_ptr<const Fleet>& fleet, Instant now, Time time) {
  if (fleet != fleet_) take_over(fleet);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Backends& backends = fleet->pools()[i].state->backends();
    for (std::size_t j = 0; j < backends.size(); ++j) {
      const std::string_view state = state_of(*backends[j], now);
      if (entries_[i][j].state != state) entries_[i][j] = {state, time};
    }
  }
}

void StateHistory::take_over(const std::shared_ptr<const Fleet>& fleet) {
  std::map<std::pair<std::string_view, std::string_view>, Entry> known;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const PoolState& pool = *fleet_->pools()[i].state;
    for (std::size_t j = 0; j < entries_[i].size(); ++j) {
      known[{pool.spec().name, pool.backends()[j]->id()}] = entries_[i][j];
    }
  }
  std::vector<std::vector<Entry>> entries;
  for (const Fleet::Member& member : fleet->pools()) {
    std::vector<Entry>& own = entries.emplace_back();
    for (const BackendPtr& backend : member.state->backends()) {
      own.push_back(known[{member.state->spec().name, backend->id()}]);
    }
  }
  entries_ = std::move(entries);
  fleet_ = fleet;  // last: `known` has views of the one before
}

}  // namespace evenkeel
