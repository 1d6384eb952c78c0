// least-connections: picks the lowest (in_flight + failures + 1) / weight. Ties at random;
// sampling: sampled.h.
//
// in_flight counts requests over all workers; failures are those of the last seconds, so that a
// backend that fails at once does not look idle (recent_failures.h). Source: Envoy's least request
// policy with an active request bias of 1. Equal ratios give quotients that are equal to the last
// bit, so ties are found.
#include "picker/sampled.h"

namespace evenkeel {
namespace {

class ConnectionCost {
 public:
  explicit ConnectionCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    return (candidates_.load_with_failures(index, now) + 1) / candidates_.weight(index);
  }

 private:
  const Candidates& candidates_;
};

}  // namespace

PickerFactory pickers::least_connections(PickerOptions options) {
  return sampled_picker_factory<ConnectionCost>(std::move(options));
}

}  // namespace evenkeel
