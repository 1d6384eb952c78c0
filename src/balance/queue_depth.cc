// queue-depth: the least (depth + 1) / weight, where the depth is what the engine says that it has
// running and waiting, corrected by what this process sent and finished since it said so (depth.h).
// Ties at random; sampling: sampled.h.
#include "balance/depth.h"
#include "balance/sampled.h"

namespace evenkeel {
namespace {

class Depth {
 public:
  explicit Depth(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    return (depth_of(candidates_.load(index), now) + 1) / candidates_.weight(index);
  }

 private:
  const Candidates& candidates_;
};

}  // namespace

PickerMaker pickers::queue_depth(PickerSetup setup) {
  return sampled_picker_maker<Depth>(std::move(setup));
}

}  // namespace evenkeel
