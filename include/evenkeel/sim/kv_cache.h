// The KV cache of a simulated engine: blocks of tokens, shared by prefix, evicted in LRU order.
// After vLLM's BlockPool and FreeKVCacheBlockQueue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace evenkeel {

/// A fixed number of blocks. A block is pinned while a sequence uses it; an unused block keeps its
/// content, and can be found by the hash of its prefix, until it is allocated again.
class KvCache {
 public:
  using Block = std::uint32_t;

  /// Allocates released blocks in LRU order, as in vLLM; with `evict_empty_first`, those without
  /// published content before all others.
  explicit KvCache(std::uint32_t blocks, bool evict_empty_first = false);

  std::uint32_t size() const { return size_; }
  /// Blocks that no sequence uses, whether or not they have content.
  std::uint32_t free() const { return free_; }

  /// The cached part of a prefix.
  struct PrefixMatch {
    std::uint32_t blocks = 0;        ///< leading hashes that are cached
    std::uint32_t unreferenced = 0;  ///< of these, unused blocks: pinning them reduces `free`
  };
  PrefixMatch find(std::span<const std::uint64_t> prefix) const;

  /// Pins the blocks of a prefix and appends them to `owned`. REQUIRES: `find` finds them all.
  void pin(std::span<const std::uint64_t> prefix, std::vector<Block>& owned);
  /// Allocates blocks in LRU order and appends them to `owned`. False: fewer are free, and none is
  /// allocated.
  bool allocate(std::uint32_t count, std::vector<Block>& owned);
  /// Sets the content of a block. Of several blocks with equal content, the first one is found.
  void publish(Block block, std::uint64_t hash);
  /// Unpins a sequence's blocks and clears the list. The last block is evicted first.
  void release(std::vector<Block>& owned);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t ref_count = 0;
    Block next = 0;  // in the list of free blocks, least recently used first
    Block previous = 0;
    bool published = false;
  };

  void unlink(Block block);
  void insert_free(Block block, Block before);
  Slot& list() { return slots_[size_]; }  // head of the circular list

  std::uint32_t size_;
  bool evict_empty_first_;
  std::uint32_t free_ = 0;
  std::vector<Slot> slots_;
  std::unordered_map<std::uint64_t, Block> by_hash_;
};

}  // namespace evenkeel
