#include "upstream/poll_schedule.h"

#include <algorithm>

namespace evenkeel {
namespace {

Duration times(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Duration PollSchedule::initial_delay() { return times(configured_interval_, random_.unit()); }

Duration PollSchedule::next_delay() {
  Duration next_delay = interval();
  if (failures_ > 0) {
    const Duration longest = std::max(next_delay, max_retry_interval);
    next_delay = std::min(longest, next_delay * (1 << std::min(failures_, 6u)));
  }
  return times(next_delay, 0.95 + 0.1 * random_.unit());
}

void PollSchedule::on_success(Duration took) {
  response_times_[successes_ % response_times_.size()] = took;
  ++successes_;
  failures_ = 0;
}

Duration PollSchedule::interval() const {
  if (successes_ < response_times_.size()) return configured_interval_;
  const Duration needed = times(*std::ranges::min_element(response_times_), 1 / max_duty_cycle);
  return std::clamp(needed, configured_interval_, std::max(configured_interval_, max_interval));
}

Duration PollSchedule::ttl() const { return std::max(min_ttl, interval() * ttl_intervals); }

}  // namespace evenkeel
