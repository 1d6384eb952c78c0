// How many requests of each client wait where places are few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace evenkeel {

/// Counts of waiting requests by client. While all places are taken, the client with the most gives
/// one up for a client with fewer: none keeps the others out. `client`: of `client_key`.
class ClientShares {
 public:
  void add(std::uint64_t client) {
    clients_with_.resize(std::max<std::size_t>(clients_with_.size(), most_ + 2));
    std::uint32_t& count = counts_[client];
    if (count > 0) --clients_with_[count];
    ++clients_with_[++count];
    most_ = std::max(most_, count);
  }
  /// REQUIRES: it was added.
  void remove(std::uint64_t client) {
    const auto found = counts_.find(client);
    --clients_with_[found->second];
    if (clients_with_[most_] == 0) --most_;
    if (--found->second == 0) {
      counts_.erase(found);
    } else {
      ++clients_with_[found->second];
    }
  }
  std::uint32_t of(std::uint64_t client) const {
    const auto found = counts_.find(client);
    return found == counts_.end() ? 0 : found->second;
  }
  /// The number of the client that has the most.
  std::uint32_t most() const { return most_; }
  /// True if `client` has the most, and gives way to one with `other`, which then has no more.
  bool gives_way(std::uint64_t client, std::uint32_t other) const {
    return most_ > other + 1 && of(client) == most_;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
  std::vector<std::uint32_t> clients_with_;  // that many
  std::uint32_t most_ = 0;
};

}  // namespace evenkeel
