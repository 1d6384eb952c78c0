// What a router believes that its backends have cached: the prefixes that it sent to each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace evenkeel::bench {

/// A least-recently-used set of blocks for each backend.
class ShadowIndex {
 public:
  ShadowIndex(std::uint32_t backends, std::size_t blocks_each);

  /// Leading blocks of a prompt that the backend is believed to have.
  std::uint32_t match(std::uint32_t backend, std::span<const std::uint64_t> blocks) const;
  /// A prompt was sent there. Its first block will be forgotten last.
  void add(std::uint32_t backend, std::span<const std::uint64_t> blocks);
  std::size_t blocks_of(std::uint32_t backend) const { return sets_[backend].order.size(); }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Set {
    std::list<std::uint64_t> order;  // least recently used first
    std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places;
  };

  std::vector<Set> sets_;
  std::size_t capacity_;
};

}  // namespace evenkeel::bench
