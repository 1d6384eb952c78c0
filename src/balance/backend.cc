#include "evenkeel/balance/backend.h"

#include <utility>

#include "balance/request_queue.h"

namespace evenkeel {

Backend::Backend(BackendSpec spec, std::shared_ptr<RequestQueue> queue)
    : spec_(std::move(spec)), load_(std::make_shared<Load>()), request_queue_(std::move(queue)) {
  load_->set_limit(spec_.max_in_flight);
  if (spec_.standby) load_->take_out(OutOfRotation::standby);
}

Backend::Backend(BackendSpec spec, const Backend& predecessor)
    : spec_(std::move(spec)),
      load_(predecessor.load_),
      request_queue_(predecessor.request_queue_) {}

bool Backend::try_acquire(Instant now) const {
  if (!load_->try_acquire(load_->limit())) return false;
  load_->count_pick();
  if (load_->needs_trial()) load_->begin_trial(now);
  return true;
}

void Backend::release() const {
  load_->release();
  if (request_queue_ && request_queue_->has_waiters())
    request_queue_->dispatch(*load_, Clock::now());
}

void Backend::activate() const {
  load_->set_limit(spec_.max_in_flight);
  if (request_queue_ && request_queue_->has_waiters())
    request_queue_->dispatch(*load_, Clock::now());
}

void Backend::put_back(OutOfRotation reason) const {
  if (!load_->clear(reason)) return;
  load_->forget_latency();
  if (request_queue_ && request_queue_->has_waiters())
    request_queue_->dispatch(*load_, Clock::now());
}

void Backend::connected() const {
  if (!load_->needs_trial() || !load_->recover()) return;
  load_->forget_latency();
  back_from_backoff();
}

void Backend::record_outcome(const AttemptResult& result, Instant now) const {
  switch (result.outcome) {
    case AttemptOutcome::success:
      if (load_->record_success(now)) back_from_backoff();
      return;
    case AttemptOutcome::overloaded: return load_->record_overloaded(result.retry_after, now);
    case AttemptOutcome::failed: return load_->record_failed(result, now);
    case AttemptOutcome::unreachable:
      return connect_failed(now, result.fault.value_or(Fault::connect_failed));
    case AttemptOutcome::client_error:
    case AttemptOutcome::abandoned: return;
  }
}

/// Its free slots may be used again: waiting requests get them.
void Backend::back_from_backoff() const {
  if (request_queue_ && request_queue_->has_waiters())
    request_queue_->dispatch(*load_, Clock::now());
}

}  // namespace evenkeel
