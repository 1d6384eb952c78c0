#include "evenkeel/balance/backend.h"

#include <utility>

#include "balance/waiting_line.h"

namespace evenkeel {

Backend::Backend(BackendSpec spec, std::shared_ptr<WaitingLine> line)
    : spec_(std::move(spec)), load_(std::make_shared<Load>()), line_(std::move(line)) {
  load_->set_limit(spec_.max_in_flight);
  if (spec_.standby) load_->close(Closure::standby);
}

Backend::Backend(BackendSpec spec, const Backend& predecessor)
    : spec_(std::move(spec)), load_(predecessor.load_), line_(predecessor.line_) {}

bool Backend::try_enter(Instant now) const {
  if (!load_->try_enter(load_->limit())) return false;
  load_->count_pick();
  if (load_->suspect()) load_->back_off(now);
  return true;
}

void Backend::leave() const {
  load_->leave();
  if (line_ && line_->occupied()) line_->offer(*load_, Clock::now());
}

void Backend::take_over() const {
  load_->set_limit(spec_.max_in_flight);
  if (line_ && line_->occupied()) line_->offer(*load_, Clock::now());
}

void Backend::reopen(Closure why) const {
  if (!load_->clear(why)) return;
  load_->forget_pace();
  if (line_ && line_->occupied()) line_->offer(*load_, Clock::now());
}

void Backend::connected() const {
  if (!load_->suspect() || !load_->recover()) return;
  load_->forget_pace();
  if (line_ && line_->occupied()) line_->offer(*load_, Clock::now());
}

}  // namespace evenkeel
