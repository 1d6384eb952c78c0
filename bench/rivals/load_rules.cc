#include "bench/rivals/load_rules.h"

namespace evenkeel::bench {

std::uint32_t TwoChoices::choose(const ReplayedRequest&, Instant) {
  if (backends() == 1) return 0;
  const std::uint32_t first = rng().below(backends());
  std::uint32_t second = rng().below(backends() - 1);
  if (second >= first) ++second;
  return seen(first).in_flight() <= seen(second).in_flight() ? first : second;
}

}  // namespace evenkeel::bench
