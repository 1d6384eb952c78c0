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
  if (load_->needs_trial()) load_->back_off(now);
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
  if (request_queue_ && request_queue_->has_waiters())
    request_queue_->dispatch(*load_, Clock::now());
}

}  // namespace evenkeel
