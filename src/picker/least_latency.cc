// least-latency: picks the lowest  latency * (in_flight + failures + 1) * warmup / weight.  Ties at
// random; sampling: sampled.h.
//
// latency, in seconds, is a moving average of the time to the first byte that reacts fast to slow
// responses (peak_ewma.h), drawn towards the pool's mean while samples are few or old, and 0 for an
// idle backend that is due for a trial (expected_latency.h). failures are those of the last seconds
// (recent_failures.h). The time to the last byte would not do: of a language model it measures the
// length of the response. warmup is the penalty for few samples (expected_latency.h).
//
// Source: Peak EWMA in Finagle and tower, cost = average * (pending + 1), with their penalty for a
// backend without a response. Their average decays to zero without traffic, this one to the mean,
// so an idle pool still prefers its faster backends. in_flight counts over all workers immediately,
// so the next pick sees what this one added and workers do not oscillate between backends.
#include "picker/expected_latency.h"
#include "picker/sampled.h"

namespace evenkeel {
namespace {

class LatencyCost {
 public:
  explicit LatencyCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const SharedBackend& shared = candidates_.shared(index);
    return expected_(shared, now) * (candidates_.load_with_failures(index, now) + 1) *
           warmup_penalty(shared) / candidates_.weight(index);
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
