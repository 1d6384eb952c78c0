// Backends for tests, and ways to load them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/balance/lease.h"
#include "evenkeel/balance/picker.h"
#include "evenkeel/balance/pool.h"

namespace evenkeel::testing {

// An arbitrary time: pickers read the time from the hint.
inline constexpr Instant noon = Instant(std::chrono::hours(12));

inline BackendSpec some_spec(std::size_t number, std::uint32_t weight = 1,
                             std::uint32_t limit = 0) {
  const std::string address =
      "10.0." + std::to_string(number / 256) + "." + std::to_string(number % 256) + ":8000";
  return {.id = address, .address = address, .weight = weight, .max_in_flight = limit};
}

inline std::shared_ptr<Backends> backends_of(const std::vector<BackendSpec>& specs) {
  auto backends = std::make_shared<Backends>();
  for (const auto& spec : specs) backends->push_back(std::make_shared<Backend>(spec));
  return backends;
}

inline std::shared_ptr<Backends> some_backends(std::size_t count, std::uint32_t limit = 0) {
  std::vector<BackendSpec> specs;
  for (std::size_t number = 0; number < count; ++number)
    specs.push_back(some_spec(number, 1, limit));
  return backends_of(specs);
}

inline std::shared_ptr<Backends> weighted_backends(const std::vector<std::uint32_t>& weights) {
  std::vector<BackendSpec> specs;
  for (auto weight : weights) specs.push_back(some_spec(specs.size(), weight));
  return backends_of(specs);
}

inline PoolSpec some_pool(std::size_t count, std::uint32_t limit, QueueConfig queue = {}) {
  PoolSpec spec{.name = "llama", .queue = queue};
  for (std::size_t number = 0; number < count; ++number) {
    spec.backends.push_back(some_spec(number, 1, limit));
  }
  return spec;
}

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
    weights += backends[i]->spec().weight;
    picks += counts[i];
  }
  double sum = 0;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const double expected = picks * backends[i]->spec().weight / weights;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

}  // namespace evenkeel::testing
