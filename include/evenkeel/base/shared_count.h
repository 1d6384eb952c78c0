// How many things on all threads are in one state now.
#pragma once

#include <atomic>
#include <cstdint>

namespace evenkeel {

/// Thread: any.
class SharedCount {
 public:
  void add() { value_.fetch_add(1, std::memory_order_relaxed); }
  void remove() { value_.fetch_sub(1, std::memory_order_relaxed); }
  std::uint32_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> value_{0};
};

/// Counts as one while it lives.
class Counted {
 public:
  /// REQUIRES: `count` outlives it. Null: counts nowhere.
  explicit Counted(SharedCount* count) : count_(count) {
    if (count_ != nullptr) count_->add();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    if (count_ != nullptr) count_->remove();
  }

 private:
  SharedCount* count_;
};

}  // namespace evenkeel
