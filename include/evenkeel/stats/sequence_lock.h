// A value that one thread replaces while others read it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace evenkeel {

/// A sequence lock around a copy of a trivially copyable value of so many words of 64 bits. Writing
/// never waits; reading fails while the value changes. (H.-J. Boehm: Can seqlocks get along with
/// programming language memory models?)
///
/// Thread: `write` on one at a time, `read` on any.
template <std::size_t words>
class SequenceLocked {
 public:
  /// Replaces the first `used` words, and leaves the others as they are.
  void write(const void* value, std::size_t used = words) {
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    // The words are written after a reader can see that they change, and before it can see that
    // they do not any more.
    version_.store(version + 1, std::memory_order_relaxed);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < used; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(value) + i * sizeof word, sizeof word);
      copy_[i].store(word, std::memory_order_release);
    }
    version_.store(version + 2, std::memory_order_release);
  }

  /// False if nothing was written yet, or something is being written.
  bool read(void* value) const {
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    if (before == 0 || before % 2 != 0) return false;
    std::array<std::uint64_t, words> copy;
    for (std::size_t i = 0; i < words; ++i) copy[i] = copy_[i].load(std::memory_order_acquire);
    if (version_.load(std::memory_order_relaxed) != before) return false;
    std::memcpy(value, copy.data(), sizeof copy);
    return true;
  }

 private:
  std::atomic<std::uint64_t> version_{0};  // odd while the words change
  std::array<std::atomic<std::uint64_t>, words> copy_{};
};

}  // namespace evenkeel
