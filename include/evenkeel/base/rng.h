// Random numbers: small, fast, seeded, not for secrets.
#pragma once

#include <bit>
#include <cstdint>

namespace evenkeel {

/// Spreads the bits of a number over all 64: SplitMix64's finaliser (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// Returns a number that nothing outside the process can predict.
std::uint64_t random_seed();

/// xoshiro256** (Blackman, Vigna 2018). The same seed gives the same numbers on every machine.
///
/// Thread: one at a time; give each worker its own.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Rng(std::uint64_t seed) {
    for (auto& word : state_) word = mix(seed += 0x9e3779b97f4a7c15u);
  }

  constexpr std::uint64_t operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// 0 <= result < bound, by one multiplication (Lemire); the bias is below bound / 2^32.
  /// REQUIRES: bound > 0.
  constexpr std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((*this)() >> 32) * bound >> 32);
  }

  /// 0 <= result < 1.
  constexpr double unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace evenkeel
