#include "evenkeel/pool/pool.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <utility>

#include "evenkeel/backend/gpu_memory_guard.h"
#include "evenkeel/backend/unavailable.h"
#include "pool/admission.h"
#include "pool/affinity.h"
#include "pool/outlier_detector.h"
#include "pool/pool_maintenance.h"
#include "pool/pool_refusal.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

// Lost races for the last slot of a backend before a request queues.
constexpr int max_pick_attempts = 16;

/// True if the backend is in rotation, on standby or ejected: a pool that loses its other backends
/// ignores ejections.
bool usable_or_standby(const SharedBackend& shared) {
  return shared.state.other_reasons(OutOfRotation::standby, OutOfRotation::ejected) == 0;
}

bool has_in_rotation(const Backends& backends, const ExcludedBackends& excluded) {
  return std::any_of(backends.begin(), backends.end(), [&](const auto& backend) {
    return backend->state().in_rotation() && !excluded.contains(backend.get());
  });
}

}  // namespace

// ---- PoolState --------------------------------------------------------------------------------

PoolState::PoolState() = default;
PoolState::~PoolState() = default;

std::shared_ptr<PoolState> PoolState::build(PoolSpec spec, const PoolState* predecessor) {
  auto state = std::shared_ptr<PoolState>(new PoolState);
  state->admission_ =
      predecessor != nullptr ? predecessor->admission_ : std::make_shared<Admission>();
  state->outlier_detector_ =
      predecessor != nullptr ? predecessor->outlier_detector_ : std::make_shared<OutlierDetector>();
  state->retry_budget_ =
      predecessor != nullptr ? predecessor->retry_budget_ : std::make_shared<RetryBudget>();
  state->wait_forecast_ =
      predecessor != nullptr ? predecessor->wait_forecast_ : std::make_shared<WaitForecast>();
  state->maintenance_ =
      predecessor != nullptr ? predecessor->maintenance_ : std::make_shared<PoolMaintenance>();

  std::unordered_map<std::string_view, const BackendPtr*> known;
  if (predecessor != nullptr) {
    for (const auto& backend : predecessor->backends()) known.emplace(backend->id(), &backend);
  }

  state->backends_ = std::make_shared<Backends>();
  state->backends_->reserve(spec.backends.size());
  for (const auto& wanted : spec.backends) {
    const auto found = known.find(wanted.id);
    if (found == known.end()) {
      state->backends_->push_back(
          std::make_shared<Backend>(wanted, state->admission_, state->outlier_detector_));
    } else if ((*found->second)->spec() == wanted) {
      state->backends_->push_back(*found->second);
    } else {
      state->backends_->push_back(std::make_shared<Backend>(wanted, **found->second));
    }
    state->index_.emplace(&state->backends_->back()->shared(), state->index_.size());
  }
  assert(state->index_.size() == spec.backends.size());

  state->make_pickers(spec, predecessor);
  if (spec.picker.has_scheduler()) {
    state->scheduled_ = std::make_shared<ScheduledPool>(
        spec, state->backends_, state->admission_,
        predecessor != nullptr ? predecessor->scheduled_.get() : nullptr);
  }
  state->make_queues(predecessor);
  if (spec.affinity) {
    state->affinity_ =
        std::make_unique<Affinity>(*spec.affinity, state->backends_,
                                   predecessor != nullptr ? predecessor->affinity() : nullptr);
  }
  state->spec_ = std::move(spec);
  return state;
}

void PoolState::make_pickers(const PoolSpec& spec, const PoolState* predecessor) {
  const PickerOptions options{.backends = backends_, .choice = spec.picker};
  picker_factory_ = picker_factory(options);
  assert(picker_factory_);
  if (spec.picker.shadow_picker) {
    shadow_factory_ = picker_factory({.backends = backends_, .choice = *spec.picker.shadow_picker});
    assert(shadow_factory_);
  }
  subsets_.reserve(spec.subsets.size());
  for (const SubsetSpec& subset : spec.subsets) {
    const std::uint32_t before = predecessor == nullptr ? 0 : predecessor->subset_number(subset);
    subsets_.emplace_back(subset, options,
                          before == 0 ? nullptr : &predecessor->subsets_[before - 1]);
  }
}

std::uint32_t PoolState::subset_number(const SubsetSpec& subset) const {
  const auto found = std::ranges::find(subsets_, subset, &Subset::spec);
  return found == subsets_.end() ? 0 : static_cast<std::uint32_t>(found - subsets_.begin()) + 1;
}

std::optional<std::uint32_t> PoolState::subset_in(const PoolState& other,
                                                  std::uint32_t number) const {
  if (number == 0) return 0;
  const std::uint32_t found = other.subset_number(subsets_[number - 1].spec());
  return found == 0 ? std::nullopt : std::optional(found);
}

bool PoolState::in_subset(std::uint32_t subset, const Backend& backend) const {
  if (subset == 0) return true;
  const auto found = index_.find(&backend.shared());
  return found != index_.end() && subsets_[subset - 1].contains(found->second);
}

void PoolState::activate() const {
  for (const auto& backend : *backends_) backend->activate();
  outlier_detector_->activate(spec_.name, spec_.outlier, backends_);
  if (scheduled_ != nullptr) scheduled_->activate();
  if (affinity_ != nullptr) affinity_->activate();
}

void PoolState::leave(const PoolState* successor) const {
  const bool goes_on = successor != nullptr && successor->affinity_ != nullptr;
  if (affinity_ != nullptr && !goes_on) affinity_->close();
}

std::shared_ptr<const void> PoolState::release_sessions() const {
  return affinity_ != nullptr ? affinity_->take_former() : nullptr;
}

std::shared_ptr<const void> PoolState::release_index(const PoolState* successor) const {
  if (scheduled_ == nullptr) return nullptr;
  PoolScheduler& scheduler = scheduled_->scheduler();
  const bool goes_on = successor != nullptr && successor->scheduled_ != nullptr &&
                       &successor->scheduled_->scheduler() == &scheduler;
  return goes_on ? nullptr : scheduler.release_index();
}

bool PoolState::panics() const { return outlier_detector_->panics(); }

std::uint64_t PoolState::in_flight() const {
  std::uint64_t sum = 0;
  for (const auto& backend : *backends_) sum += backend->slots().in_flight();
  return sum;
}

double PoolState::saturation_ratio() const {
  std::uint64_t slots = 0;
  for (const auto& backend : *backends_) {
    if (backend->spec().max_in_flight == 0) return 0;
    slots += backend->spec().max_in_flight;
  }
  if (slots == 0) return 0;
  return static_cast<double>(in_flight()) / static_cast<double>(slots);
}

std::size_t PoolState::available(Instant now) const {
  return static_cast<std::size_t>(
      std::count_if(backends_->begin(), backends_->end(), [&](const auto& backend) {
        return backend->state().in_rotation() && !backend->state().unreachable(now);
      }));
}

QueueStats PoolState::queue() const { return admission_->counts(); }

/// A subset gets its share of what waits for any backend of the pool.
Duration PoolState::wait_for(const Hint& hint) const {
  if (hint.subset == 0) return wait_forecast_->wait_for(std::uint64_t{queue().waiting} + 1);
  const Subset& subset = subsets_[hint.subset - 1];
  const auto [same, any] = admission_->waiting_beside(*queues_[hint.subset]);
  const double share =
      static_cast<double>(subset.backends().size()) / static_cast<double>(backends_->size());
  return subset.wait_for(same + static_cast<std::uint64_t>(std::ceil(any * share)) + 1);
}

bool PoolState::has_waiting() const { return admission_->has_waiting(); }

std::optional<SchedulerStats> PoolState::scheduler_stats() const {
  if (scheduled_ == nullptr) return std::nullopt;
  return scheduled_->stats();
}

std::optional<BackendForecast> PoolState::forecast(const Backend& backend, Instant now) const {
  if (scheduled_ == nullptr) return std::nullopt;
  return scheduled_->scheduler().forecast(backend.shared(), now);
}

std::vector<ExplainedDecision> PoolState::decisions(std::string_view name) const {
  if (scheduled_ == nullptr) return {};
  return scheduled_->scheduler().decisions(name);
}

std::optional<ExplainedDecision> PoolState::last_decision(std::string_view name,
                                                          std::uint64_t request) const {
  if (scheduled_ == nullptr) return std::nullopt;
  return scheduled_->scheduler().last_decision(name, request);
}

std::optional<AffinityStats> PoolState::affinity_stats() const {
  if (affinity_ == nullptr) return std::nullopt;
  return affinity_->stats();
}

bool PoolState::knows(std::uint64_t session, Instant now) const {
  return affinity_->knows(session, now);
}

AnswerPins PoolState::answer_pins(const Backend& backend) const {
  return affinity_->answer_pins(backend);
}

std::vector<AffinityTable::Saved> PoolState::saved_sessions(Instant now) const {
  if (affinity_ == nullptr) return {};
  return affinity_->saved(now);
}

void PoolState::restore(std::span<const AffinityTable::Saved> sessions, Instant now) const {
  if (affinity_ != nullptr) affinity_->restore(sessions, now);
}

bool PoolState::pin_holds(const Hint& hint, Instant now) const {
  const bool has_state = hint.session && hint.session->has_state;
  return hint.pinned == nullptr || Affinity::holds(*hint.pinned, has_state, now);
}

const BackendPtr* PoolState::find(const SharedBackend& shared, std::uint32_t subset) const {
  const auto found = index_.find(&shared);
  if (found == index_.end()) return nullptr;
  if (subset != 0 && !subsets_[subset - 1].contains(found->second)) return nullptr;
  return &(*backends_)[found->second];
}

bool PoolState::may_become_available(const Hint& hint) const {
  if (hint.subset != 0) return has_in_rotation(backends_for(hint), hint.excluded);
  return std::ranges::any_of(*backends_, [&](const BackendPtr& backend) {
    return usable_or_standby(backend->shared()) && !hint.excluded.contains(backend.get());
  });
}

bool PoolState::has_available(const Hint& hint, Instant now) const {
  return std::ranges::any_of(backends_for(hint), [&](const BackendPtr& backend) {
    const SharedBackend& shared = backend->shared();
    return shared.state.in_rotation() && !deprioritized(shared, now) &&
           !hint.excluded.contains(backend.get());
  });
}

bool PoolState::deprioritized(const SharedBackend& shared, Instant now) const {
  return shared.state.avoided(now) || over_memory_guard(shared);
}

bool PoolState::over_memory_guard(const SharedBackend& shared) const {
  return evenkeel::over_memory_guard(shared, spec_.picker.guard());
}

void PoolState::tick(Instant now) {
  outlier_detector_->tick(now);
  maintenance_->tick(*this, now);
  if (scheduled_ != nullptr) scheduled_->scheduler().tick(now);
  if (affinity_ != nullptr) affinity_->tick(spec_.name, now);
  for (const Subset& subset : subsets_) subset.tick(spec_.name, now);
  std::uint64_t active = 0;
  std::uint64_t picks = 0;
  for (const auto& backend : *backends_) {
    active += backend->slots().in_flight();
    picks += backend->slots().picks_total();
  }
  wait_forecast_->tick(picks - std::min(active, picks), now);
  if (has_waiting()) active += queue().waiting;
  retry_budget_->set_active(active, spec_.retry_budget);
}

LearnedState PoolState::learned(const Backend& backend, Instant now) const {
  const SharedBackend& shared = backend.shared();
  LearnedState learned{.weight = static_cast<double>(shared.findings.learned_weight()),
                       .speed = maintenance_->learned_speed(shared),
                       .ejections = outlier_detector_->ejections_of(shared)};
  const PeakEwma& latency = shared.stats.latency();
  if (latency.samples() > 0 && latency.seconds() > 0) {
    learned.latency_seconds = latency.seconds();
    learned.latency_samples = latency.samples();
    learned.latency_age = latency.age(now);
  }
  if (shared.state.why() != Avoidance::ejected) return learned;
  const BackendState::Details details = shared.state.details();
  learned.ejected = details.ejection_reason;
  const bool lasts = shared.state.is_out(OutOfRotation::ejected) && details.until > now;
  if (lasts) learned.ejected_for = details.until - now;
  return learned;
}

void PoolState::restore(const Backend& backend, const LearnedState& learned, Instant now) const {
  SharedBackend& shared = backend.shared();
  if (spec_.picker.weights == WeightSource::observed && learned.weight > 0 && learned.speed > 0) {
    shared.findings.set_learned_weight(static_cast<float>(learned.weight));
    maintenance_->restore_speed(shared, learned.speed, now);
  }
  // One that does not serve may come back as another server.
  if (shared.state.other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0) return;
  if (learned.latency_samples > 0 && shared.stats.latency().samples() == 0) {
    shared.stats.restore_latency(learned.latency_seconds, learned.latency_samples,
                                 now - learned.latency_age);
  }
  if (learned.ejections > 0) outlier_detector_->restore(shared, learned, now);
}

std::optional<LearnedScheduler> PoolState::learned_scheduler(std::size_t max_prefixes,
                                                             Instant now) const {
  if (scheduled_ == nullptr) return std::nullopt;
  return scheduled_->scheduler().learned(max_prefixes, now);
}

void PoolState::restore(const LearnedScheduler& learned, Instant now) const {
  if (scheduled_ != nullptr) scheduled_->scheduler().restore(learned, now);
}

void PoolState::forget_caches_of_absent() const {
  if (scheduled_ == nullptr) return;
  for (const BackendPtr& backend : *backends_) {
    const SharedBackend& shared = backend->shared();
    if (shared.state.other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0)
      scheduled_->scheduler().forget_caches(shared);
  }
}

// ---- Pool -------------------------------------------------------------------------------------

Pool::Pool(std::shared_ptr<PoolState> state, Loop& loop, std::uint64_t seed)
    : state_(std::move(state)), loop_(loop) {
  pickers_.push_back(state_->new_picker(seed));
  shadow_picker_ = state_->new_shadow_picker(seed);
  for (const Subset& subset : state_->subsets()) {
    pickers_.push_back(subset.new_picker(seed + pickers_.size()));
  }
}

Task<Result<Lease>> Pool::acquire(const Hint& hint, Instant deadline) {
  if (hint.session && state_->affinity() != nullptr) return acquire_for_session(hint, deadline);
  const BackendPtr* backend = pick_backend(hint);
  if (backend != nullptr) return Lease::adopt(*backend);
  if (!state_->may_become_available(hint)) return acquire_elsewhere(hint, deadline);
  return hint.subset == 0 ? queue_up(hint, deadline) : wait_in_subset(hint, deadline);
}

/// None of the backends that the request is for can take it. Of a subset: others may.
Task<Result<Lease>> Pool::acquire_elsewhere(const Hint& hint, Instant deadline) {
  if (hint.subset == 0) return no_backend_error();
  state_->subsets()[hint.subset - 1].count_fallback();
  Hint any = hint;
  any.subset = 0;
  return acquire(any, deadline);
}

/// Waits for a slot of the subset. If all its backends go out of rotation, others will do.
Task<Result<Lease>> Pool::wait_in_subset(Hint hint, Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->spec().queue.timeout);
  auto lease = co_await queue_up(hint, until);
  if (lease || lease.error().fault != Fault::no_backend) co_return lease;
  auto placed = co_await acquire_elsewhere(hint, until);
  co_return placed;
}

Error Pool::no_backend_error(const PoolState& pool) const {
  std::string why = "no backend is left to try";
  if (!has_in_rotation(pool.backends(), {})) {
    why = why_unavailable(pool.backends(), loop_.now());
    if (why.empty()) why = "the pool has no backend";
  }
  return refusal(Fault::no_backend, pool.spec().name, why, pool.spec().recovery_time);
}

/// Null also if others wait for the backend, and of a request that the scheduler places.
const BackendPtr* Pool::pick_backend(const Hint& hint) {
  if (state_->schedules(hint)) return nullptr;
  const Admission& admission = state_->admission();
  if (admission.has_waiting() && admission.has_waiting(state_->queue_of(hint))) return nullptr;
  Hint timed = hint;
  timed.now = loop_.now();
  for (int pick = 0; pick < max_pick_attempts; ++pick) {
    const BackendPtr* backend = picker_for(timed).pick(timed);
    if (backend == nullptr || admission.is_awaited((*backend)->shared())) return nullptr;
    if ((*backend)->try_acquire(timed.now)) return backend;
  }
  return nullptr;
}

}  // namespace evenkeel
