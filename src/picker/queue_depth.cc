// queue-depth: picks the lowest (depth + failures + 1) / weight. Ties at random; sampling:
// sampled.h.
//
// depth is the number of requests that the engine reports as running and waiting, corrected by what
// this process has sent and finished since that report (queue_estimate.h, which names the source).
// failures are those of the last seconds (recent_failures.h).
#include "evenkeel/picker/queue_estimate.h"
#include "picker/sampled.h"

namespace evenkeel {
namespace {

class QueueDepthCost {
 public:
  explicit QueueDepthCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const SharedBackend& shared = candidates_.shared(index);
    const double depth = estimated_queue_depth(shared, now) + shared.failure_penalty(now);
    return (depth + 1) / candidates_.weight(index);
  }

 private:
  const Candidates& candidates_;
};

}  // namespace

PickerFactory pickers::queue_depth(PickerOptions options) {
  return sampled_picker_factory<QueueDepthCost>(std::move(options));
}

}  // namespace evenkeel
