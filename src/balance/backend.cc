#include "evenkeel/balance/backend.h"

#include <utility>

#include "balance/admission.h"
#include "balance/outlier_detector.h"
#include "evenkeel/base/log.h"

namespace evenkeel {

Backend::Backend(BackendSpec spec, std::shared_ptr<Admission> admission,
                 std::shared_ptr<OutlierDetector> detector)
    : spec_(std::move(spec)),
      load_(std::make_shared<Load>()),
      admission_(std::move(admission)),
      outlier_detector_(std::move(detector)) {
  load_->set_limit(spec_.max_in_flight);
  if (spec_.standby) load_->take_out(OutOfRotation::standby);
}

Backend::Backend(BackendSpec spec, const Backend& predecessor)
    : spec_(std::move(spec)),
      load_(predecessor.load_),
      admission_(predecessor.admission_),
      outlier_detector_(predecessor.outlier_detector_) {}

bool Backend::try_acquire(Instant now) const {
  if (!load_->try_acquire(load_->limit())) return false;
  load_->count_pick();
  if (load_->needs_trial()) load_->begin_trial(now);
  return true;
}

void Backend::release() const {
  load_->release();
  serve_queue();
}

/// A backend that ramps keeps its share, which may be no more than the new maximum: the next tick
/// of SlowStart adapts it, but what has been granted until then cannot be taken back.
void Backend::activate() const {
  const std::uint32_t full = spec_.max_in_flight;
  const std::uint32_t share = load_->limit();
  limit(load_->ramps() && share > 0 && (full == 0 || share < full) ? share : full);
}

void Backend::limit(std::uint32_t slots) const {
  load_->set_limit(slots);
  serve_queue();
}

void Backend::put_back(OutOfRotation reason) const {
  if (reason == OutOfRotation::unhealthy && load_->is_out(reason)) {
    load_->forget_failures();
    load_->clear(OutOfRotation::ejected);
  }
  if (!load_->clear(reason)) return;
  load_->forget_latency();
  serve_queue();
}

void Backend::note_sleep(SleepSource source, bool sleeps) const {
  const bool slept = load_->is_out(OutOfRotation::sleeping);
  if (load_->note_sleep(source, sleeps) == slept) return;
  log::info(spec_.id + (slept ? " is awake again" : " sleeps: it gets no requests until it wakes"));
  if (slept) return put_back(OutOfRotation::sleeping);
  load_->take_out(OutOfRotation::sleeping);
  load_->signals().engine().fell_asleep();
}

void Backend::accepted(bool safe_method, Instant sent, Instant now) const {
  const bool ends_trial = load_->end_trial(now);
  if (load_->end_park(safe_method, sent, now) || ends_trial) serve_queue();
}

void Backend::probe_succeeded(Instant now) const {
  if (load_->ejection() != Ejection::ejected || now < load_->ejected_until()) return;
  load_->set_ejection(Ejection::probed, now);
  put_back(OutOfRotation::ejected);
}

void Backend::end_silence() const {
  if (load_->end_silence()) serve_queue();
}

void Backend::connected() const {
  if (!load_->needs_trial()) return;
  bool returns = load_->recover();
  const bool no_longer_ejected =
      load_->is_out(OutOfRotation::ejected) && load_->ejection() == Ejection::none;
  if (no_longer_ejected) returns |= load_->clear(OutOfRotation::ejected);
  if (!returns) return;
  load_->forget_latency();
  serve_queue();
}

void Backend::answered(Instant sent, Instant now) const {
  if (load_->end_connect_failures(sent, now)) serve_queue();
}

void Backend::record_outcome(const AttemptResult& result, Instant now) const {
  if (result.outcome != AttemptOutcome::success) [[unlikely]]
    count_failure(result, now);
  switch (result.outcome) {
    case AttemptOutcome::success:
      if (load_->record_success(result.safe_method, now)) serve_queue();
      return;
    case AttemptOutcome::overloaded:
      load_->end_trial(now);
      return load_->record_overloaded(result, now);
    case AttemptOutcome::failed:
      load_->record_failed(result, now);
      if (outlier_detector_) outlier_detector_->on_failure(*load_, now);
      return;
    case AttemptOutcome::unreachable:
      load_->end_trial(now);
      return connect_failed(now, result.fault.value_or(Fault::connect_failed));
    case AttemptOutcome::client_error:
      if (load_->end_trial(now)) serve_queue();
      return;
    case AttemptOutcome::abandoned: return;
  }
}

void Backend::count_failure(const AttemptResult& result, Instant now) const {
  const bool counts = result.outcome == AttemptOutcome::failed ||
                      result.outcome == AttemptOutcome::overloaded ||
                      result.outcome == AttemptOutcome::unreachable;
  if (counts) load_->count_failure(now);
  if (result.status >= 500) load_->count_failed_response();
}

/// Its free slots may be used: waiting requests get them.
void Backend::serve_queue() const {
  if (admission_ && admission_->is_awaited(*load_)) admission_->offer(*load_, Clock::now());
}

}  // namespace evenkeel
