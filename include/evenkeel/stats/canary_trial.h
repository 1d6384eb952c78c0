// Whether a new version, or another pool, that gets a share of a route is still good enough.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// What the answers of a canary must keep to.
struct CanaryBounds {
  double error_rate = 0;           ///< the most of its requests that may fail; 0: any share
  Duration ttft{};                 ///< 95 % of its first tokens are no later; 0: any time
  Duration window{};               ///< that is looked back over
  std::uint32_t min_requests = 1;  ///< in it, before anything is concluded
};

enum class CanaryVerdict : std::uint8_t { on_trial, too_many_errors, too_slow };

/// The word of a verdict, such as "too_slow".
std::string_view to_string(CanaryVerdict verdict);

/// Counts what becomes of a canary's requests, in eight parts of the window, and ends the trial
/// with the answer that leaves the bounds. It stays ended until it is restarted. Counts of a part
/// that are full (16383) are halved.
///
/// Thread: any. Never locks.
class CanaryTrial {
 public:
  struct Counts {
    std::uint32_t requests = 0;
    std::uint32_t failures = 0;
    std::uint32_t slow = 0;  ///< had a late first token, or waited as long in vain
  };

  explicit CanaryTrial(const CanaryBounds& bounds)
      : bounds_(bounds), part_(std::max<Duration>(bounds.window / parts, Duration(1))) {}
  CanaryTrial(const CanaryTrial&) = delete;
  CanaryTrial& operator=(const CanaryTrial&) = delete;

  const CanaryBounds& bounds() const { return bounds_; }
  /// True if the trial ends with this request, whose first token came so late. Counts it.
  bool count(bool failed, Duration first_token, Instant now);
  /// The verdict; `on_trial`: it has not ended.
  CanaryVerdict verdict() const { return verdict_.load(std::memory_order_acquire); }
  bool has_ended() const { return verdict() != CanaryVerdict::on_trial; }
  /// What counts now, or counted when the trial ended.
  Counts counts(Instant now) const;
  /// Begins again, with nothing counted.
  void restart();
  /// Ends it as it had ended in the process before.
  void end(CanaryVerdict verdict) { verdict_.store(verdict, std::memory_order_relaxed); }

 private:
  static constexpr int parts = 8;

  std::uint64_t number_of(Instant time) const;
  Counts counts_at(std::uint64_t number) const;
  CanaryVerdict judge(const Counts& counts) const;

  const CanaryBounds bounds_;
  const Duration part_;
  /// The number of a part of time, then three counts, in one word each.
  std::array<std::atomic<std::uint64_t>, parts> counts_{};
  std::atomic<std::uint64_t> ended_in_{0};  // the number of that part
  std::atomic<CanaryVerdict> verdict_{CanaryVerdict::on_trial};
};

}  // namespace evenkeel
