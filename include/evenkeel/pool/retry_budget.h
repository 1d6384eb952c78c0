// How many retries a pool may afford, over all workers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace evenkeel {

/// A balance of retries, as in Finagle: every answered request adds a share of a retry, every retry
/// takes a whole one. While all backends fail nothing is added, so that an outage is not amplified
/// by more than the balance at its start. That is at most the share of the requests in flight, or
/// `reserve` if that is more.
///
/// Thread: any. A `deposit` to a full balance, which is the usual case, only reads.
class RetryBudget {
 public:
  static constexpr std::int32_t reserve = 10;  ///< retries

  /// A request was answered. `share`: retries per request, 0..1.
  void deposit(double share) {
    if (balance_.load(std::memory_order_relaxed) >= capacity_.load(std::memory_order_relaxed))
      return;
    balance_.fetch_add(static_cast<std::int32_t>(share * unit), std::memory_order_relaxed);
  }

  /// Takes a retry; false: none is left, and nothing was taken.
  bool withdraw() {
    if (balance_.fetch_sub(unit, std::memory_order_relaxed) >= unit) return true;
    balance_.fetch_add(unit, std::memory_order_relaxed);
    return false;
  }

  /// Gives back what `withdraw` took for a retry that was not made.
  void refund() { balance_.fetch_add(unit, std::memory_order_relaxed); }

  /// Adapts the limit of the balance to the load: it rises at once and falls slowly, since requests
  /// in flight vanish when backends fail. Thread: the control thread, about ten times a second.
  void set_active(std::uint64_t requests, double share) {
    const double wanted = std::min(share * static_cast<double>(requests), max_capacity);
    const double before = capacity_.load(std::memory_order_relaxed) / double{unit};
    const double next = std::max({wanted, before * decay, double{reserve}});
    const auto capacity = static_cast<std::int32_t>(next * unit);
    capacity_.store(capacity, std::memory_order_relaxed);
    const std::int32_t balance = balance_.load(std::memory_order_relaxed);
    if (balance > capacity) balance_.fetch_sub(balance - capacity, std::memory_order_relaxed);
  }

  /// Whole retries that are left.
  std::int32_t left() const { return balance_.load(std::memory_order_relaxed) / unit; }

 private:
  static constexpr std::int32_t unit = 1000;   // the balance counts thousandths
  static constexpr double max_capacity = 1e6;  // retries; far from an overflow
  static constexpr double decay = 0.99;        // per tick: halved in 7 s

  // Apart from what requests write: every answered request reads it.
  alignas(64) std::atomic<std::int32_t> balance_{reserve * unit};
  std::atomic<std::int32_t> capacity_{reserve * unit};
};

}  // namespace evenkeel
