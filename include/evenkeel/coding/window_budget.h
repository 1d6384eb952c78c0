// The memory that decompressing takes.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace evenkeel {

/// What the windows of the decompressors of one worker may take together: text that later bytes
/// refer to. Those of gzip, of 32 KiB, are not counted. A client may take as much as it leaves
/// free: one alone gets half of all, two a third each, and one more client always finds some.
///
/// Thread: one.
class WindowBudget {
 public:
  static constexpr std::uint64_t default_bytes = 64UL * 1024 * 1024;

  explicit WindowBudget(std::uint64_t max_bytes = default_bytes) : max_bytes_(max_bytes) {}

  /// Takes bytes for a client (of `client_key`). False if there are too few for it: none is taken.
  bool take(std::uint64_t client, std::uint64_t bytes) {
    if (bytes > max_bytes_ - taken_) return false;
    std::uint64_t& own = clients_[client];
    if (own + bytes > max_bytes_ - taken_ - bytes) {
      if (own == 0) clients_.erase(client);
      return false;
    }
    own += bytes;
    taken_ += bytes;
    return true;
  }
  void give(std::uint64_t client, std::uint64_t bytes) {
    const auto own = clients_.find(client);
    if (own == clients_.end()) return;  // it has taken nothing
    taken_ -= bytes;
    if ((own->second -= bytes) == 0) clients_.erase(own);
  }
  std::uint64_t taken() const { return taken_; }

 private:
  const std::uint64_t max_bytes_;
  std::uint64_t taken_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> clients_;
};

/// What one client may take of it. Without a budget there is no limit.
struct WindowShare {
  WindowBudget* budget = nullptr;
  std::uint64_t client = 0;
};

}  // namespace evenkeel
