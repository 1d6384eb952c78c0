// Which prefix blocks each backend of a pool probably has in its cache: what this process has sent
// there, in LRU order. One walk over the blocks of a prompt answers for all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel {

/// A bounded set of (block hash, backend) pairs. Everything is allocated by the constructor.
///
/// A block's hash covers all that precedes the block's end, so a prompt is cached as far as its
/// leading hashes are. Each backend has a capacity in blocks; what exceeds it is evicted, the least
/// recently sent first and, of one prompt, its end first, as engines do (vLLM's
/// FreeKVCacheBlockQueue). 64-bit hashes that collide count as the same block.
///
/// Thread: one at a time.
class PrefixIndex {
 public:
  /// The most blocks of a prompt that are indexed, from its beginning.
  static constexpr std::size_t max_prompt_blocks = 1024;

  /// Allocates as many pairs as fit into `max_bytes`, and at least one for each backend.
  PrefixIndex(std::uint32_t backends, std::size_t max_bytes);

  std::uint32_t backends() const { return static_cast<std::uint32_t>(lists_.size()); }
  /// Blocks that a backend's cache holds; evicts what exceeds them. The largest (and initial)
  /// capacity is an equal share of all pairs.
  void set_capacity(std::uint32_t backend, std::uint32_t blocks);
  std::uint32_t capacity(std::uint32_t backend) const { return lists_[backend].capacity; }
  std::uint32_t max_capacity() const { return max_capacity_; }

  /// Writes for each backend how many of the leading blocks it has. REQUIRES: depths.size() ==
  /// backends().
  void match(std::span<const std::uint64_t> prompt, std::span<std::uint32_t> depths) const;
  /// A prompt was sent to the backend: adds its blocks, as the most recently used ones.
  void add(std::uint32_t backend, std::span<const std::uint64_t> prompt);
  /// Forgets a backend's blocks: its engine has restarted.
  void clear(std::uint32_t backend);

  /// The next `copy` returns the beginning of this backend's list.
  void begin_copy(std::uint32_t backend) { copied_to_ = lists_[backend].first; }
  /// The next blocks of that backend, the last used first; returns how many, 0 at the end. Between
  /// two calls the index may change: what is used meanwhile may be missing. One copy at a time.
  std::size_t copy(std::span<std::uint64_t> hashes);

  std::uint32_t size(std::uint32_t backend) const { return lists_[backend].size; }
  /// Memory of the index; does not change.
  std::size_t bytes() const;

 private:
  using Word = std::uint64_t;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // A block is a row of words, so that a walk touches few cache lines: its hash, how many backends
  // hold it (of a free block: the next free one), and a bit for each of them.
  static constexpr std::uint32_t count_word = 1;
  static constexpr std::uint32_t first_holder_word = 2;
  /// A backend's hold of a block, in the backend's list.
  struct Hold {
    std::uint32_t block = 0;
    std::uint32_t backend = 0;
    std::uint32_t previous = 0;  // more recently used
    std::uint32_t next = 0;      // of a free hold: the next free one
  };
  struct List {
    std::uint32_t first = none;  // the most recently used
    std::uint32_t last = none;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
  };
  /// Open addressing with linear probing; removal moves later entries back, so that nothing is left
  /// behind by churn.
  struct Table {
    std::vector<std::uint32_t> slots;
    std::uint32_t mask = 0;
  };

  /// Through the blocks of a prompt. Those that came together have neighbouring rows, in one
  /// direction or the other, since free rows are taken in the order in which they became free.
  struct Walk {
    std::uint32_t block = none;
    std::uint32_t direction = 1;  // or -1, modulo 2^32

    void go_to(std::uint32_t next) {
      if (next == block + 1) direction = 1;
      if (next == block - 1) direction = ~std::uint32_t{0};
      block = next;
    }
  };

  static void make(Table& table, std::uint32_t entries);
  std::uint32_t home_of_block(std::uint64_t hash) const;
  std::uint32_t home_of_hold(std::uint32_t block, std::uint32_t backend) const;
  std::uint32_t find_block(std::uint64_t hash) const;
  /// The block of this hash if it is the next one on the walk; else none.
  std::uint32_t neighbour(const Walk& walk, std::uint64_t hash) const;
  std::uint32_t find_hold(std::uint32_t block, std::uint32_t backend) const;
  template <class HomeOf>
  static void insert(Table& table, std::uint32_t entry, HomeOf home_of);
  template <class HomeOf>
  static void erase(Table& table, std::uint32_t entry, HomeOf home_of);
  std::uint32_t block_of(std::uint64_t hash);
  void hold(std::uint32_t backend, std::uint64_t hash);
  void release(std::uint32_t hold);
  void unlink(List& list, std::uint32_t hold);
  void push_front(List& list, std::uint32_t hold);
  void prefetch(std::span<const std::uint64_t> hashes) const;
  Word* row_of(std::uint32_t block) { return &blocks_[std::size_t{block} * row_words_]; }
  const Word* row_of(std::uint32_t block) const {
    return &blocks_[std::size_t{block} * row_words_];
  }

  std::uint32_t words_;      // of each block's set of holders
  std::uint32_t row_words_;  // of each block
  std::uint32_t max_capacity_ = 0;
  std::vector<List> lists_;
  std::vector<Word> blocks_;  // rows
  std::vector<Hold> holds_;
  Table block_table_;
  Table hold_table_;
  std::uint32_t free_block_ = none;
  std::uint32_t free_hold_ = none;
  std::uint32_t copied_to_ = none;   // the next hold that `copy` returns
  mutable std::vector<Word> alive_;  // scratch of `match`
};

}  // namespace evenkeel
