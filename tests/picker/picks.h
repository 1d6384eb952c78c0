// Where the picks of tests go.
#pragma once

#include <vector>

#include "backend/some_backends.h"
#include "evenkeel/picker/picker.h"

namespace evenkeel::testing {

inline std::size_t index_of(const Backends& backends, const BackendPtr* chosen) {
  for (std::size_t index = 0; index < backends.size(); ++index) {
    if (chosen != nullptr && *chosen == backends[index]) return index;
  }
  return backends.size();
}

// How often each backend is picked, without taking a slot.
inline std::vector<int> count_picks(Picker& picker, const Backends& backends, int picks,
                                    Hint hint = {.now = noon}) {
  std::vector<int> counts(backends.size() + 1);
  for (int i = 0; i < picks; ++i) ++counts[index_of(backends, picker.pick(hint))];
  return counts;
}

// Pearson's sum over (observed - expected)^2 / expected, for shares in proportion to the weights.
inline double chi_square(const std::vector<int>& counts, const Backends& backends) {
  double weights = 0;
  double picks = 0;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    weights += backends[i]->spec().config.weight;
    picks += counts[i];
  }
  double sum = 0;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const double expected = picks * backends[i]->spec().config.weight / weights;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

}  // namespace evenkeel::testing
