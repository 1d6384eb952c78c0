// Memory for the responses on one client connection.
#pragma once

#include <cstdint>

namespace evenkeel {

/// What all responses on a client connection may hold, so that one client does not take what is
/// meant for all. Thread: the connection's.
class ConnectionBudget {
 public:
  explicit ConnectionBudget(std::uint64_t bytes) : left_(bytes), half_(bytes / 2) {}
  ConnectionBudget(const ConnectionBudget&) = delete;
  ConnectionBudget& operator=(const ConnectionBudget&) = delete;

  /// False if too much is taken already.
  bool take(std::uint32_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  bool half_left(std::uint32_t bytes) const { return left_ >= half_ + bytes; }
  void give_back(std::uint32_t bytes) { left_ += bytes; }
  std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_;
  std::uint64_t half_;
};

}  // namespace evenkeel
