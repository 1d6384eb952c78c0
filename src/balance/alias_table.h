// Drawing at random by weight in constant time.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {

/// The alias method (Walker 1977, Vose 1991): each slot keeps its own index with some probability
/// and else yields another's.
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
    std::uint32_t keep;  // of 2^32
    std::uint32_t alias;
  };
  std::vector<Slot> slots_;
};

}  // namespace evenkeel
