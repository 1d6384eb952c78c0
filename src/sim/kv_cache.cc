#include "evenkeel/sim/kv_cache.h"

namespace evenkeel {

KvCache::KvCache(std::uint32_t blocks, bool evict_empty_first)
    : size_(blocks), evict_empty_first_(evict_empty_first), slots_(blocks + 1) {
  list().next = list().previous = size_;
  for (Block block = 0; block < size_; ++block) insert_free(block, size_);
}

KvCache::PrefixMatch KvCache::find(std::span<const std::uint64_t> prefix) const {
  PrefixMatch hit;
  for (const std::uint64_t hash : prefix) {
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) break;
    ++hit.blocks;
    if (slots_[found->second].ref_count == 0) ++hit.unreferenced;
  }
  return hit;
}

void KvCache::pin(std::span<const std::uint64_t> prefix, std::vector<Block>& owned) {
  for (const std::uint64_t hash : prefix) {
    const Block block = by_hash_.at(hash);
    if (slots_[block].ref_count++ == 0) unlink(block);
    owned.push_back(block);
  }
}

bool KvCache::allocate(std::uint32_t count, std::vector<Block>& owned) {
  if (count > free_) return false;
  for (; count > 0; --count) {
    const Block block = list().next;
    unlink(block);
    Slot& slot = slots_[block];
    if (slot.published) by_hash_.erase(slot.hash);
    slot.published = false;
    slot.ref_count = 1;
    owned.push_back(block);
  }
  return true;
}

void KvCache::publish(Block block, std::uint64_t hash) {
  Slot& slot = slots_[block];
  if (slot.published || !by_hash_.emplace(hash, block).second) return;
  slot.published = true;
  slot.hash = hash;
}

void KvCache::release(std::vector<Block>& owned) {
  while (!owned.empty()) {
    const Block block = owned.back();
    owned.pop_back();
    Slot& slot = slots_[block];
    if (--slot.ref_count > 0) continue;
    insert_free(block, evict_empty_first_ && !slot.published ? list().next : size_);
  }
}

void KvCache::unlink(Block block) {
  Slot& slot = slots_[block];
  slots_[slot.previous].next = slot.next;
  slots_[slot.next].previous = slot.previous;
  --free_;
}

void KvCache::insert_free(Block block, Block before) {
  Slot& slot = slots_[block];
  slot.previous = slots_[before].previous;
  slot.next = before;
  slots_[slot.previous].next = block;
  slots_[before].previous = block;
  ++free_;
}

}  // namespace evenkeel
