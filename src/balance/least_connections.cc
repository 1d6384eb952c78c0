// least-connections: picks the lowest (in_flight + 1) / weight. Ties at random; sampling:
// sampled.h.
//
// in_flight counts requests over all workers. Source: Envoy's least request policy with an active
// request bias of 1. Equal ratios give quotients that are equal to the last bit, so ties are found.
#include "balance/sampled.h"

namespace evenkeel {
namespace {

class ConnectionCost {
 public:
  explicit ConnectionCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant) {
    return (candidates_.in_flight(index) + 1.0) / candidates_.weight(index);
  }

 private:
  const Candidates& candidates_;
};

}  // namespace

PickerFactory pickers::least_connections(PickerOptions options) {
  return sampled_picker_factory<ConnectionCost>(std::move(options));
}

}  // namespace evenkeel
