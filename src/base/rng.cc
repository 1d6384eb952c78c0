#include "evenkeel/base/rng.h"

#include <random>

namespace evenkeel {

std::uint64_t random_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace evenkeel
