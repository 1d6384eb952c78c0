// Rules that go by counts of requests.
#pragma once

#include "bench/rivals/rule.h"

namespace evenkeel::bench {

/// Power of two choices (Mitzenmacher): of two backends at random, the one with fewer in flight.
class TwoChoices final : public Rule {
 public:
  using Rule::Rule;

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
};

}  // namespace evenkeel::bench
