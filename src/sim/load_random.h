// Chance for the load: small, seeded, the same on every machine.
#pragma once

#include <cstdint>

namespace evenkeel {

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Uniform in (0, 1].
  double unit() { return (static_cast<double>(next() >> 11) + 1) * 0x1.0p-53; }

  /// Uniform in [low, high], but for a bias below 1 in 2^32.
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    const std::uint64_t span = std::uint64_t{high} - low + 1;
    return low + static_cast<std::uint32_t>(((next() >> 32) * span) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// One seed out of two numbers: streams of chance that have nothing to do with each other.
inline std::uint64_t mix_seeds(std::uint64_t a, std::uint64_t b) {
  return SplitMix(SplitMix(a).next() ^ b).next();
}

}  // namespace evenkeel
