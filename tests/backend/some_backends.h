// Backends for tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/backend/backend.h"

namespace evenkeel::testing {

// An arbitrary time: pickers read the time from the hint.
inline constexpr Instant noon = Instant(std::chrono::hours(12));

inline BackendSpec some_spec(std::size_t number, std::uint32_t weight = 1,
                             std::uint32_t limit = 0) {
  const std::string address =
      "10.0." + std::to_string(number / 256) + "." + std::to_string(number % 256) + ":8000";
  return {.id = address, .address = address, .max_in_flight = limit, .config = {.weight = weight}};
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

}  // namespace evenkeel::testing
