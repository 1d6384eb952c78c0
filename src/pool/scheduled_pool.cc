#include "evenkeel/pool/scheduled_pool.h"

#include <utility>

#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

SchedulerOptions options_of(const PoolConfig& config) {
  return {.config = config.picker, .patience = config.limits.queue.timeout};
}

}  // namespace

ScheduledPool::ScheduledPool(const PoolConfig& config, std::shared_ptr<const Backends> backends,
                             const std::shared_ptr<Admission>& admission,
                             const ScheduledPool* predecessor)
    : options_(options_of(config)),
      shadow_picker_(config.picker.shadow_picker),
      backends_(std::move(backends)) {
  const bool goes_on =
      predecessor != nullptr && predecessor->scheduler_->fits(options_, *backends_);
  scheduler_ = goes_on ? predecessor->scheduler_
                       : std::make_shared<PoolScheduler>(options_, backends_->size(), admission);
  if (shadow_picker_) {
    const bool same = goes_on && predecessor->shadow_picker_ == shadow_picker_;
    shadow_stats_ = same ? predecessor->shadow_stats_ : std::make_shared<ShadowStats>();
  }
  slots_ = scheduler_->join(*backends_);
  if (predecessor != nullptr && !goes_on) scheduler_->continue_from(*predecessor->scheduler_);
}

ScheduledPool::~ScheduledPool() { scheduler_->leave(*backends_); }

SchedulerStats ScheduledPool::stats() const { return scheduler_->stats(shadow_stats_.get()); }

std::optional<BackendForecast> ScheduledPool::forecast(const Backend& backend, Instant now) const {
  return scheduler_->forecast(backend.shared(), now);
}

std::vector<ExplainedDecision> ScheduledPool::decisions(std::string_view name) const {
  return scheduler_->decisions(name);
}

std::optional<ExplainedDecision> ScheduledPool::last_decision(std::string_view name,
                                                              std::uint64_t request) const {
  return scheduler_->last_decision(name, request);
}

LearnedScheduler ScheduledPool::learned(std::size_t max_prefixes, Instant now) const {
  return scheduler_->learned(max_prefixes, now);
}

void ScheduledPool::restore(const LearnedScheduler& learned, Instant now) const {
  scheduler_->restore(learned, now);
}

void ScheduledPool::forget_caches_of_absent() const {
  for (const BackendPtr& backend : *backends_) {
    const SharedBackend& shared = backend->shared();
    if (shared.state.other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0)
      scheduler_->forget_caches(shared);
  }
}

void ScheduledPool::activate() const { scheduler_->configure(options_); }

std::shared_ptr<const void> ScheduledPool::release_index(const ScheduledPool* successor) const {
  const bool goes_on = successor != nullptr && successor->scheduler_ == scheduler_;
  return goes_on ? nullptr : scheduler_->release_index();
}

}  // namespace evenkeel
