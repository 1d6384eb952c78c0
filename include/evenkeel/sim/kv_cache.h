// The KV cache of a simulated engine: blocks of tokens, shared by prefix, evicted least recently
// used first. After vLLM's BlockPool and FreeKVCacheBlockQueue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace evenkeel {

/// A fixed number of blocks. A block is pinned while a sequence uses it; a block that nobody uses
/// keeps its content, and can be found by the hash of its prefix, until it is taken for another.
class KvCache {
 public:
  using Block = std::uint32_t;

  /// With `evict_empty_first`, a released block that holds nothing to be found is taken before all
  /// that do; without, as in vLLM, in its turn.
  explicit KvCache(std::uint32_t blocks, bool evict_empty_first = false);

  std::uint32_t size() const { return size_; }
  /// Blocks that nobody uses, whether or not they still hold something.
  std::uint32_t free() const { return free_; }

  /// A prefix that is here.
  struct PrefixMatch {
    std::uint32_t blocks = 0;  ///< leading hashes that are here
    std::uint32_t unreferenced =
        0;  ///< of these, blocks that nobody uses: pinning them takes from `free`
  };
  PrefixMatch find(std::span<const std::uint64_t> prefix) const;

  /// Pins the blocks of a prefix and appends them to `owned`. REQUIRES: `find` says they are here.
  void pin(std::span<const std::uint64_t> prefix, std::vector<Block>& owned);
  /// Takes blocks, the least recently used first, and appends them to `owned`; false, and nothing
  /// taken, when fewer are free.
  bool allocate(std::uint32_t count, std::vector<Block>& owned);
  /// Says what a block holds from now on. The first block of a content stays the one that is found.
  void publish(Block block, std::uint64_t hash);
  /// Unpins all of a sequence's blocks and empties the list. Its last block is evicted first.
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
