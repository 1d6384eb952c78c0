// Random draws by weight in constant time.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {

/// The alias method. Each slot yields its own index with a probability that the table stores, and
/// otherwise one other index.
///
/// Source: Walker, 1977; Vose, A linear algorithm for generating random numbers with a given
/// distribution, 1991.
class AliasTable {
 public:
  explicit AliasTable(const std::vector<std::uint32_t>& weights);

  /// An index with probability weight / (sum of weights). REQUIRES: there is at least one.
  std::uint32_t draw(Rng& rng) const {
    const std::uint64_t random = rng();
    const auto slot = static_cast<std::uint32_t>((random >> 32) * slots_.size() >> 32);
    const Slot& found = slots_[slot];
    return static_cast<std::uint32_t>(random) < found.keep ? slot : found.alias;
  }

 private:
  struct Slot {
    std::uint32_t keep;  // probability, in units of 2^-32
    std::uint32_t alias;
  };
  std::vector<Slot> slots_;
};

}  // namespace evenkeel
