#include "evenkeel/pool/pick_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "evenkeel/picker/picker.h"
#include "pool/eligibility.h"

namespace evenkeel {
namespace {

std::string_view state_for(const PoolState& pool, const Hint& hint, const Backend& backend) {
  const SharedBackend& shared = backend.shared();
  if (hint.excluded.contains(&backend)) return "tried";
  if (!shared.state.in_rotation()) return "out";
  if (!shared.slots.has_room()) return "full";
  return deprioritized(pool, shared, hint.now) ? "avoided" : "open";
}

/// Returns the indices of the backends that a record keeps: the chosen one, those that the picker
/// has compared, the cheapest one before all, then the others as the file has them.
std::vector<std::size_t> kept_backends(const Backends& backends, const Backend& chosen,
                                       const std::vector<std::optional<double>>& costs) {
  constexpr double not_compared = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> order(backends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t kept = std::min(order.size(), PickRecord::max_candidates);
  const auto rank = [&](std::size_t i) {
    const bool is_other = backends[i].get() != &chosen;
    return std::tuple(is_other, costs[i].value_or(not_compared), i);
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept), {}, rank);
  order.resize(kept);
  return order;
}

/// `costs`: by the index of the backend.
PickRecord describe(const PoolState& pool, const Hint& hint, const Backend& chosen,
                    const std::vector<std::optional<double>>& costs) {
  const Backends& backends = pool.backend_set().of(hint.subset);
  PickRecord record{.request_id = std::string(hint.explained_id),
                    .time = hint.now,
                    .backend = chosen.id(),
                    .how = "picked",
                    .considered = backends.size()};
  const auto kept = kept_backends(backends, chosen, costs);
  record.candidates.reserve(kept.size());
  for (const std::size_t i : kept) {
    const Backend& backend = *backends[i];
    record.candidates.push_back({.backend = backend.id(),
                                 .state = state_for(pool, hint, backend),
                                 .in_flight = backend.slots().in_flight(),
                                 .weight = std::max(backend.spec().config.weight, 1u),
                                 .polled = backend.shared().signals.values(),
                                 .cost = costs[i]});
  }
  return record;
}

}  // namespace

PickRecord describe_pick(const PoolState& pool, const Hint& hint, Picker& picker,
                         const Backend& chosen) {
  const Backends& backends = pool.backend_set().of(hint.subset);
  // A picker looks at backends that are avoided only if all are.
  const std::string_view chosen_state = state_for(pool, hint, chosen);
  std::vector<std::optional<double>> costs(backends.size());
  for (std::size_t i = 0; i < backends.size(); ++i) {
    if (state_for(pool, hint, *backends[i]) != chosen_state) continue;
    costs[i] = picker.compared_cost(i, hint.now);
  }
  return describe(pool, hint, chosen, costs);
}

PickRecord describe_placement(const PoolState& pool, const Hint& hint, const Backend& chosen,
                              std::string_view how) {
  const Backends& backends = pool.backend_set().of(hint.subset);
  PickRecord record =
      describe(pool, hint, chosen, std::vector<std::optional<double>>(backends.size()));
  record.how = how;
  if (record.candidates.empty() || record.candidates.front().backend != record.backend)
    return record;  // it is outside of the subset
  PickCandidate& own = record.candidates.front();
  own.state = "open";  // it had a slot for the request
  if (own.in_flight > 0) --own.in_flight;
  return record;
}

std::string compact_text(const PickRecord& record, std::string_view picker) {
  std::string text =
      fmt::format("backend=\"{}\", picker={}, how={}, waited={:.3f}, of={}", record.backend, picker,
                  record.how, seconds_of(record.waited), record.considered);
  for (std::size_t i = 0; i < std::min<std::size_t>(record.candidates.size(), 3); ++i) {
    const PickCandidate& each = record.candidates[i];
    text += fmt::format(", c{}=\"{}\";state={};in_flight={};weight={}", i + 1, each.backend,
                        each.state, each.in_flight, each.weight);
    if (each.cost) text += fmt::format(";cost={:.3f}", *each.cost);
  }
  return text;
}

void PickLog::add(PickRecord record) {
  const std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
  if (records_.size() > capacity) records_.pop_front();
}

std::vector<PickRecord> PickLog::find(std::string_view request_id) const {
  std::vector<PickRecord> found;
  const std::lock_guard lock(mutex_);
  std::ranges::copy_if(records_, std::back_inserter(found),
                       [&](const PickRecord& each) { return each.request_id == request_id; });
  return found;
}

std::optional<PickRecord> PickLog::last(std::string_view request_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(records_.rbegin(), records_.rend(), [&](const PickRecord& each) {
    return each.request_id == request_id;
  });
  return found == records_.rend() ? std::nullopt : std::optional(*found);
}

}  // namespace evenkeel
