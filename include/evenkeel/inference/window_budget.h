// The memory that decompressing takes.
#pragma once

#include <cstdint>

namespace evenkeel {

/// What the windows of the decompressors of one worker may take together: text that later bytes
/// refer to. Those of gzip, of 32 KiB, are not counted.
///
/// Thread: one.
class WindowBudget {
 public:
  static constexpr std::uint64_t default_bytes = 64UL * 1024 * 1024;

  explicit WindowBudget(std::uint64_t max_bytes = default_bytes) : max_bytes_(max_bytes) {}

  /// False: there is not that much left, and nothing is taken.
  bool take(std::uint64_t bytes) {
    if (bytes > max_bytes_ - taken_) return false;
    taken_ += bytes;
    return true;
  }
  void give(std::uint64_t bytes) { taken_ -= bytes; }
  std::uint64_t taken() const { return taken_; }

 private:
  const std::uint64_t max_bytes_;
  std::uint64_t taken_ = 0;
};

}  // namespace evenkeel
