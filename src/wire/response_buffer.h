// Memory for responses on their way from a backend to clients that may read slowly.
#pragma once

#include <cstdint>

#include "evenkeel/base/buffer.h"
#include "evenkeel/http/connection_budget.h"

namespace evenkeel {

/// What the responses on one thread may hold in all, beyond the small block or window that each of
/// them has: a response that does not get a share is read in smaller pieces. So clients that open
/// many streams and read none of them cannot take much.
///
/// Thread: counts for the one that uses it.
class ResponseBudget {
 public:
  static constexpr std::int64_t bytes_per_thread = std::int64_t{8} * 1024 * 1024;

  /// False if too much is taken already.
  static bool take(std::uint32_t bytes) {
    if (taken_ + bytes > bytes_per_thread) return false;
    taken_ += bytes;
    return true;
  }
  static bool half_left(std::uint32_t bytes) { return taken_ + bytes <= bytes_per_thread / 2; }
  static void give_back(std::uint32_t bytes) { taken_ -= bytes; }
  static std::int64_t taken() { return taken_; }

 private:
  static inline constinit thread_local std::int64_t taken_ = 0;
};

/// What one response has taken from both budgets; its destructor gives that back.
class ResponseCharge {
 public:
  /// `connection`: the budget of the client's connection, which outlives the charge; null: none.
  explicit ResponseCharge(ConnectionBudget* connection) : connection_(connection) {}
  ResponseCharge(const ResponseCharge&) = delete;
  ResponseCharge& operator=(const ResponseCharge&) = delete;
  ~ResponseCharge() { give_back(); }

  /// False if one of the budgets is spent.
  bool take(std::uint32_t bytes) {
    if (connection_ != nullptr && !connection_->take(bytes)) return false;
    if (ResponseBudget::take(bytes)) {
      bytes_ += bytes;
      return true;
    }
    if (connection_ != nullptr) connection_->give_back(bytes);
    return false;
  }
  /// Takes bytes only where half of both budgets is left afterwards, for those that need less.
  bool take_of_first_half(std::uint32_t bytes) {
    const bool fits = connection_ == nullptr || connection_->half_left(bytes);
    return fits && ResponseBudget::half_left(bytes) && take(bytes);
  }
  void give_back() {
    if (bytes_ == 0) return;
    ResponseBudget::give_back(bytes_);
    if (connection_ != nullptr) connection_->give_back(bytes_);
    bytes_ = 0;
  }
  std::uint32_t bytes() const { return bytes_; }

 private:
  ConnectionBudget* connection_;
  std::uint32_t bytes_ = 0;
};

/// A buffer for a response body: a large block while the budgets last.
class ResponseBuffer : public ReadBuffer {
 public:
  explicit ResponseBuffer(ConnectionBudget* connection) : charge_(connection) {}

  /// Takes a block for the next bytes, unless it has a large one: a huge one if `expected` bytes
  /// are to come, they need it and the budgets are half free, else a large one, or when a budget is
  /// spent, none if that is `optional`, else a small one. REQUIRES: no bytes in it are in use.
  void take(std::uint64_t expected, bool optional) {
    if (charge_.bytes() > 0) return;
    if (expected > Block::large && charge_.take_of_first_half(Block::huge)) {
      block = Block::take(Block::huge);
    } else if (charge_.take(Block::large)) {
      block = Block::take(Block::large);
    } else if (!optional && !block) {
      block = Block::take(Block::small);
    }
  }
  void release() {
    ReadBuffer::release();
    charge_.give_back();
  }

 private:
  ResponseCharge charge_;
};

}  // namespace evenkeel
