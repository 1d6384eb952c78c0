#include "fleet/poll_rhythm.h"

#include <algorithm>

namespace evenkeel {
namespace {

Duration times(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Duration PollRhythm::phase() { return times(wanted_, random_.unit()); }

Duration PollRhythm::pause() {
  Duration pause = interval();
  if (failures_ > 0) {
    const Duration longest = std::max(pause, longest_retry);
    pause = std::min(longest, pause * (1 << std::min(failures_, 6u)));
  }
  return times(pause, 0.95 + 0.1 * random_.unit());
}

void PollRhythm::answered(Duration took) {
  took_[answers_ % took_.size()] = took;
  ++answers_;
  failures_ = 0;
}

Duration PollRhythm::interval() const {
  if (answers_ < took_.size()) return wanted_;
  const Duration needed = times(*std::ranges::min_element(took_), 1 / largest_share);
  return std::clamp(needed, wanted_, std::max(wanted_, longest_interval));
}

Duration PollRhythm::memory() const {
  return std::max(least_memory, interval() * remembered_intervals);
}

}  // namespace evenkeel
