#include "bench/rivals/shadow_index.h"

namespace evenkeel::bench {

ShadowIndex::ShadowIndex(std::uint32_t backends, std::size_t blocks_each)
    : sets_(backends), capacity_(blocks_each) {}

std::uint32_t ShadowIndex::match(std::uint32_t backend,
                                 std::span<const std::uint64_t> blocks) const {
  std::uint32_t count = 0;
  for (const std::uint64_t block : blocks) {
    if (!sets_[backend].places.contains(block)) break;
    ++count;
  }
  return count;
}

void ShadowIndex::add(std::uint32_t backend, std::span<const std::uint64_t> blocks) {
  Set& set = sets_[backend];
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const auto known = set.places.find(*block);
    if (known == set.places.end()) {
      set.places.emplace(*block, set.order.insert(set.order.end(), *block));
    } else {
      set.order.splice(set.order.end(), set.order, known->second);
    }
  }
  for (; set.order.size() > capacity_; set.order.pop_front()) set.places.erase(set.order.front());
}

}  // namespace evenkeel::bench
