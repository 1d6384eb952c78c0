#include "evenkeel/backend/backend.h"

#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {

Backend::Backend(BackendSpec spec, std::shared_ptr<SlotQueue> queue,
                 std::shared_ptr<FailureObserver> observer)
    : spec_(std::move(spec)),
      shared_(std::make_shared<SharedBackend>()),
      queue_(std::move(queue)),
      observer_(std::move(observer)) {
  shared_->slots.set_limit(spec_.max_in_flight);
  if (spec_.config.standby) shared_->state.take_out(OutOfRotation::standby);
}

Backend::Backend(BackendSpec spec, const Backend& predecessor)
    : spec_(std::move(spec)),
      shared_(predecessor.shared_),
      queue_(predecessor.queue_),
      observer_(predecessor.observer_) {}

bool Backend::try_acquire(Instant now) const {
  if (!shared_->slots.try_acquire()) return false;
  shared_->state.begin_request(now);
  return true;
}

void Backend::release() const {
  shared_->slots.release();
  serve_queue();
}

/// A backend that ramps keeps its share, which may be no more than the new maximum: the next tick
/// of SlowStart adapts it, but what has been granted until then cannot be taken back.
void Backend::activate() const {
  const std::uint32_t full = spec_.max_in_flight;
  const std::uint32_t share = shared_->slots.limit();
  limit(shared_->slots.ramps() && share > 0 && (full == 0 || share < full) ? share : full);
}

void Backend::limit(std::uint32_t slots) const {
  shared_->slots.set_limit(slots);
  serve_queue();
}

void Backend::put_back(OutOfRotation reason) const {
  BackendState& state = shared_->state;
  const bool comes_up = reason == OutOfRotation::unhealthy && state.is_out(reason);
  if (comes_up) state.forget();
  if (!state.clear(reason)) return;
  shared_->stats.forget_latency();
  serve_queue();
}

void Backend::note_sleep(SleepSource source, bool sleeps) const {
  const bool slept = shared_->state.is_out(OutOfRotation::sleeping);
  if (shared_->state.note_sleep(source, sleeps) == slept) return;
  log::health.info(spec_.id +
                   (slept ? " is awake again" : " sleeps: it gets no requests until it wakes"));
  if (slept) return put_back(OutOfRotation::sleeping);
  shared_->state.take_out(OutOfRotation::sleeping);
  shared_->signals.engine().fell_asleep();
}

void Backend::accepted(bool safe_method, Instant sent, Instant now) const {
  if (shared_->state.accepted(safe_method, sent, now)) serve_queue();
}

void Backend::probe_succeeded(Instant now) const {
  const bool is_due = shared_->state.is_out(OutOfRotation::ejected) && !shared_->state.avoided(now);
  if (is_due) put_back(OutOfRotation::ejected);
}

void Backend::end_silence() const {
  if (shared_->state.end_silence()) serve_queue();
}

void Backend::connected() const {
  if (!shared_->state.connected()) return;
  shared_->stats.forget_latency();
  serve_queue();
}

void Backend::answered(Instant sent) const {
  if (shared_->state.answered(sent)) serve_queue();
}

void Backend::record_outcome(const AttemptResult& result, Instant now) const {
  BackendState& state = shared_->state;
  BackendStats& stats = shared_->stats;
  if (result.status >= 500) stats.count_failed_response();
  switch (result.outcome) {
    case AttemptOutcome::success:
      if (state.succeeded(result.safe_method, result.sent, now)) serve_queue();
      return;
    case AttemptOutcome::client_error:
      if (state.undecided(result.sent, now)) serve_queue();
      return;
    case AttemptOutcome::overloaded: stats.count_failure(now); return state.overloaded(result, now);
    case AttemptOutcome::failed:
      stats.count_failure(now);
      if (!state.failed(result, now)) return;
      stats.count_failed();
      if (observer_) observer_->on_failure(*shared_, now);
      return;
    case AttemptOutcome::unreachable:
      stats.count_failure(now);
      return state.connect_failed(now, result.fault.value_or(Fault::connect_failed));
    case AttemptOutcome::abandoned: return;
  }
}

/// Gives free slots to waiting requests.
void Backend::serve_queue() const {
  if (queue_ && queue_->is_awaited(*shared_)) queue_->offer(*shared_, Clock::now());
}

}  // namespace evenkeel
