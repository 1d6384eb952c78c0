// least-latency: the least  latency * (in_flight + 1) * newness / weight.  Ties at random.
//
// latency is the moving average of the time to the first byte, which believes bad news at once
// (peak_average.h), drawn towards the pool's mean while little or nothing new is known
// (expected_latency.h). The time to the whole answer would not do: of a language model it says how
// much it wrote.
//
// Source: Peak EWMA as in Finagle and tower, cost = average * (pending + 1), with their penalty for
// who has not answered yet. Theirs falls to zero while nobody asks; ours to the mean, so that an
// idle pool still prefers its faster servers. Requests in flight are counted over all workers and
// at once, averages follow: what a pick adds is seen by the next one, so workers do not swing
// together from one server to another. Sampling: sampled.h.
#include "balance/expected_latency.h"
#include "balance/sampled.h"

namespace evenkeel {
namespace {

class LatencyCost {
 public:
  explicit LatencyCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const Load& load = candidates_.load(index);
    return expected_(load.latency(), now) * (load.in_flight() + 1.0) * warmup_penalty(load) /
           candidates_.weight(index);
  }

 private:
  const Candidates& candidates_;
  ExpectedLatency expected_;
};

}  // namespace

PickerFactory pickers::least_latency(PickerOptions options) {
  return sampled_picker_factory<LatencyCost>(std::move(options));
}

}  // namespace evenkeel
