// least-connections: the least (in_flight + 1) / weight. Ties at random.
//
// Weights as in Envoy's least request with bias 1; sampling: sampled.h. Quotients of equal ratios
// are equal to the last bit, so that ties are found.
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
