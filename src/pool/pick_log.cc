#include "evenkeel/pool/pick_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

/// Returns a low number for what is shown first: candidates that the picker has compared, the
/// cheapest one before all.
double order_of(const PickCandidate& candidate) {
  return candidate.cost.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace

PickRecord describe_pick(const PoolState& pool, const Hint& hint, Picker* picker,
                         const Backend& chosen, std::string_view how) {
  const Backends& backends = pool.backend_set().of(hint.subset);
  PickRecord record{.request_id = std::string(hint.explained),
                    .time = hint.now,
                    .backend = chosen.id(),
                    .how = how,
                    .considered = backends.size()};
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const Backend& backend = *backends[i];
    PickCandidate candidate{.backend = backend.id(),
                            .state = state_for(pool, hint, backend),
                            .in_flight = backend.slots().in_flight(),
                            .weight = std::max(backend.spec().config.weight, 1u),
                            .polled = backend.shared().signals.values()};
    if (picker != nullptr) candidate.cost = picker->compared_cost(i, hint.now);
    record.candidates.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(record.candidates, {}, [&](const PickCandidate& each) {
    return std::pair(each.backend != record.backend, order_of(each));
  });
  if (record.candidates.size() > PickRecord::max_candidates) {
    record.candidates.resize(PickRecord::max_candidates);
  }
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

}  // namespace evenkeel
