// Numbers that one thread writes and any thread reads, without locked instructions.
#pragma once

#include <atomic>
#include <cstdint>

namespace evenkeel {

/// A number that only grows. Thread: `add` on one thread, `value` on any.
class Counter {
 public:
  void add(std::uint64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  /// Thread: any. REQUIRES: no other thread adds meanwhile.
  void clear() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A number that goes up and down. Thread: as Counter. An item that is added on one worker and
/// removed on another makes one gauge negative: only the sum over all workers is meaningful.
class Gauge {
 public:
  void add(std::int64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void remove(std::int64_t amount = 1) { add(-amount); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }
  /// Sets the gauge to 0, on the terms of `Counter::clear`.
  void clear() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

}  // namespace evenkeel
