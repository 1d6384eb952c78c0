#include "evenkeel/pool/pool.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "evenkeel/backend/unavailable.h"
#include "evenkeel/pool/answer_cache.h"
#include "pool/admission.h"
#include "pool/eligibility.h"
#include "pool/outlier_detector.h"
#include "pool/pool_maintenance.h"
#include "pool/pool_refusal.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

// Lost races for the last slot of a backend before a request queues.
constexpr int max_pick_attempts = 16;

}  // namespace

// ---- PoolState --------------------------------------------------------------------------------

PoolState::PoolState() = default;
PoolState::~PoolState() = default;

std::shared_ptr<PoolState> PoolState::build(PoolSpec spec, const PoolState* predecessor) {
  auto state = std::shared_ptr<PoolState>(new PoolState);
  const auto keep = [&]<class Part>(std::shared_ptr<Part> PoolState::* part) {
    (*state).*part = predecessor != nullptr ? predecessor->*part : std::make_shared<Part>();
  };
  keep(&PoolState::admission_);
  keep(&PoolState::outlier_detector_);
  keep(&PoolState::retry_budget_);
  keep(&PoolState::wait_forecast_);
  keep(&PoolState::maintenance_);
  keep(&PoolState::picks_);

  std::unordered_map<std::string_view, const BackendPtr*> known;
  if (predecessor != nullptr) {
    for (const auto& backend : predecessor->backends()) known.emplace(backend->id(), &backend);
  }

  const auto backends = std::make_shared<Backends>();
  backends->reserve(spec.backends.size());
  for (const auto& wanted : spec.backends) {
    const auto found = known.find(wanted.id);
    if (found == known.end()) {
      backends->push_back(
          std::make_shared<Backend>(wanted, state->admission_, state->outlier_detector_));
    } else if ((*found->second)->spec() == wanted) {
      backends->push_back(*found->second);
    } else {
      backends->push_back(std::make_shared<Backend>(wanted, **found->second));
    }
  }

  state->backends_ = backends;
  const PickerOptions options{.backends = backends, .choice = spec.config.picker};
  state->picker_factory_ = picker_factory(options);
  assert(state->picker_factory_);
  if (spec.config.picker.shadow_picker) {
    state->shadow_factory_ =
        picker_factory({.backends = backends, .choice = *spec.config.picker.shadow_picker});
    assert(state->shadow_factory_);
  }
  state->backend_set_.emplace(options, spec.subsets,
                              predecessor != nullptr ? &predecessor->backend_set() : nullptr);
  if (spec.config.picker.has_scheduler()) {
    state->scheduled_ = std::make_shared<ScheduledPool>(
        spec.config, backends, state->admission_,
        predecessor != nullptr ? predecessor->scheduled_.get() : nullptr);
  }
  state->make_queues(predecessor);
  if (const auto affinity = affinity_of(spec.config)) {
    state->affinity_ = std::make_unique<Affinity>(
        *affinity, backends, predecessor != nullptr ? predecessor->affinity() : nullptr);
  }
  if (spec.config.cache) {
    if (predecessor != nullptr) state->answers_ = predecessor->answers_;
    if (state->answers_ == nullptr) state->answers_ = std::make_shared<AnswerCache>();
  }
  state->spec_ = std::move(spec);
  return state;
}

void PoolState::activate() const {
  for (const auto& backend : backends()) backend->activate();
  outlier_detector_->activate(spec_, backends_);
  if (scheduled_ != nullptr) scheduled_->activate();
  if (affinity_ != nullptr) affinity_->activate();
  if (answers_ != nullptr) answers_->set_capacity(config().cache->memory_bytes);
}

bool PoolState::panics() const { return outlier_detector_->panics(); }

std::uint64_t PoolState::in_flight() const {
  std::uint64_t sum = 0;
  for (const auto& backend : backends()) sum += backend->slots().in_flight();
  return sum;
}

double PoolState::saturation_ratio() const {
  std::uint64_t slots = 0;
  for (const auto& backend : backends()) {
    if (backend->spec().max_in_flight == 0) return 0;
    slots += backend->spec().max_in_flight;
  }
  if (slots == 0) return 0;
  return static_cast<double>(in_flight()) / static_cast<double>(slots);
}

std::size_t PoolState::available(Instant now) const {
  return static_cast<std::size_t>(std::ranges::count_if(backends(), [&](const auto& backend) {
    return backend->state().in_rotation() && !backend->state().unreachable(now);
  }));
}

QueueStats PoolState::queue() const { return admission_->counts(); }

/// A subset gets its share of what waits for any backend of the pool.
Duration PoolState::wait_for(const Hint& hint) const {
  if (hint.subset == 0) return wait_forecast_->wait_for(std::uint64_t{queue().waiting} + 1);
  const Subset& subset = backend_set_->subset(hint.subset);
  const auto [same, any] = admission_->waiting_beside(*queues_[hint.subset]);
  const double share =
      static_cast<double>(subset.backends().size()) / static_cast<double>(backends().size());
  return subset.wait_for(same + static_cast<std::uint64_t>(std::ceil(any * share)) + 1);
}

void PoolState::tick(Instant now) {
  outlier_detector_->tick(now);
  maintenance_->tick(*this, now);
  if (scheduled_ != nullptr) scheduled_->scheduler().tick(now);
  if (affinity_ != nullptr) affinity_->tick(config().name, now);
  for (const Subset& subset : backend_set_->subsets()) subset.tick(config().name, now);
  wait_forecast_->tick(completed_by(backends()), now);
  retry_budget_->set_active(in_flight() + queue().waiting, config().retry.budget);
}

LearnedState PoolState::learned(const Backend& backend, Instant now) const {
  const SharedBackend& shared = backend.shared();
  LearnedState learned{.weight = static_cast<double>(shared.findings.learned_weight()),
                       .speed = maintenance_->weight_learner().learned_speed(shared),
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
  if (config().picker.weights == WeightSource::observed && learned.weight > 0 &&
      learned.speed > 0) {
    shared.findings.set_learned_weight(static_cast<float>(learned.weight));
    maintenance_->weight_learner().restore_speed(shared, learned.speed, now);
  }
  // One that does not serve may come back as another server.
  if (shared.state.other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0) return;
  if (learned.latency_samples > 0 && shared.stats.latency().samples() == 0) {
    shared.stats.restore_latency(learned.latency_seconds, learned.latency_samples,
                                 now - learned.latency_age);
  }
  if (learned.ejections > 0) outlier_detector_->restore(shared, learned, now);
}

// ---- Pool -------------------------------------------------------------------------------------

Pool::Pool(std::shared_ptr<PoolState> state, Loop& loop, std::uint64_t seed)
    : state_(std::move(state)), loop_(loop) {
  pickers_.push_back(state_->new_picker(seed));
  shadow_picker_ = state_->new_shadow_picker(seed);
  for (const Subset& subset : state_->backend_set().subsets()) {
    pickers_.push_back(subset.new_picker(seed + pickers_.size()));
  }
}

Task<Result<Lease>> Pool::acquire(const Hint& hint, Instant deadline) {
  if (hint.session && state_->affinity() != nullptr) return acquire_for_session(hint, deadline);
  const BackendPtr* backend = pick_backend(hint);
  if (backend != nullptr) return Lease::adopt(*backend);
  if (!may_become_available(*state_, hint)) return acquire_elsewhere(hint, deadline);
  return hint.subset == 0 ? queue_up(hint, deadline) : wait_in_subset(hint, deadline);
}

/// None of the backends that the request is for can take it. Of a subset: others may.
Task<Result<Lease>> Pool::acquire_elsewhere(const Hint& hint, Instant deadline) {
  if (hint.subset == 0) return no_backend_error();
  state_->backend_set().subset(hint.subset).count_fallback();
  Hint any = hint;
  any.subset = 0;
  return acquire(any, deadline);
}

/// Waits for a slot of the subset. If all its backends go out of rotation, others will do.
Task<Result<Lease>> Pool::wait_in_subset(Hint hint, Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->config().limits.queue.timeout);
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
  return refusal(Fault::no_backend, pool.config().name, why, recovery_time(pool.config().health));
}

/// Null also if others wait for the backend, and of a request that the scheduler places.
const BackendPtr* Pool::pick_backend(const Hint& hint) {
  if (state_->schedules(hint)) return nullptr;
  const Admission& admission = state_->admission();
  if (admission.has_waiting() && admission.has_waiting(state_->queue_of(hint))) return nullptr;
  Hint timed = hint;
  timed.now = loop_.now();
  for (int pick = 0; pick < max_pick_attempts; ++pick) {
    Picker& picker = picker_for(timed);
    const BackendPtr* backend = picker.pick(timed);
    if (backend == nullptr || admission.is_awaited((*backend)->shared())) return nullptr;
    if (hint.explained_id.empty()) [[likely]] {
      if ((*backend)->try_acquire(timed.now)) return backend;
      continue;
    }
    PickRecord record = describe_pick(*state_, timed, picker, **backend);
    if (!(*backend)->try_acquire(timed.now)) continue;
    state_->picks().add(std::move(record));
    return backend;
  }
  return nullptr;
}

}  // namespace evenkeel
