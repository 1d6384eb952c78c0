#include "admin/event_history.h"

#include <string>
#include <utility>

#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {

void EventHistory::update(const RuntimeView& view, Time time) {
  const auto& pool_set = view.status->pool_set;
  const std::int64_t second =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  for (const BackendStateHistory::Change& change : states_.update(pool_set, view.now, time)) {
    const PoolState& pool = *pool_set->pools()[change.pool].state;
    const Backend& backend = *pool.backends()[change.backend];
    const BackendStatus* monitored = view.monitored->find(pool.config().name, backend.id());
    add(JsonValue::Object{{"second", second},
                          {"kind", "state"},
                          {"pool", pool.config().name},
                          {"backend", backend.id()},
                          {"from", change.from},
                          {"to", change.to},
                          {"reason", reason_of(pool, backend, monitored, view.now)}});
  }
  add_reloads(*view.status, second);
}

void EventHistory::add_reloads(const RuntimeStatus& status, std::int64_t second) {
  const auto reloads = std::exchange(reloads_, status.reloads);
  const std::uint64_t rejected = std::exchange(rejected_reloads_, status.rejected_reloads);
  if (!reloads) return;
  if (*reloads != status.reloads) add(JsonValue::Object{{"second", second}, {"kind", "reload"}});
  if (rejected == status.rejected_reloads) return;
  const std::string reason =
      status.reload_problems.empty() ? "" : status.reload_problems.front().message;
  add(JsonValue::Object{{"second", second}, {"kind", "reload_rejected"}, {"reason", reason}});
}

void EventHistory::add(JsonValue event) {
  events_.push_front(std::move(event));
  if (events_.size() > max_events) events_.pop_back();
  ++total_;
}

}  // namespace evenkeel
