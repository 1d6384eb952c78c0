#include "evenkeel/scheduler/prefix_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

// `add` evicts once, at its end, so that blocks of the prompt itself are not evicted before they
// are found; until then a backend holds this much more than its capacity.
constexpr std::uint32_t overshoot = PrefixIndex::max_prompt_blocks;
// Tables are at most half full: searches stay short.
constexpr std::uint32_t slots_per_entry = 2;
constexpr std::size_t prefetched = 16;  // blocks at a time
constexpr std::uint32_t rows_ahead = 8;
constexpr std::uint64_t no_hash = 0x9f3c5e1b7a2d4861;  // of a free block; as rare as a collision

}  // namespace

PrefixIndex::PrefixIndex(std::uint32_t backends, std::size_t max_bytes)
    : words_((backends + 63) / 64),
      row_words_(words_ + first_holder_word),
      lists_(backends),
      alive_(words_) {
  // A table has the next power of two of slots, up to twice as many as it needs.
  const std::size_t pair_bytes =
      sizeof(Hold) + row_words_ * sizeof(Word) + 2 * 2 * slots_per_entry * sizeof(std::uint32_t);
  const std::size_t least = backends + overshoot;
  const std::size_t pairs = std::clamp<std::size_t>(max_bytes / pair_bytes, least, none / 4);
  const auto count = static_cast<std::uint32_t>(pairs);
  max_capacity_ = (count - overshoot) / std::max(backends, 1u);
  for (List& list : lists_) list.capacity = max_capacity_;

  blocks_.resize(std::size_t{count} * row_words_);
  holds_.resize(count);
  make(block_table_, count);
  make(hold_table_, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    row_of(i)[0] = no_hash;
    row_of(i)[count_word] = i + 1 < count ? i + 1 : none;
    holds_[i].next = i + 1 < count ? i + 1 : none;
  }
  free_block_ = free_hold_ = 0;
}

void PrefixIndex::make(Table& table, std::uint32_t entries) {
  table.slots.assign(std::bit_ceil(std::size_t{entries} * slots_per_entry), none);
  table.mask = static_cast<std::uint32_t>(table.slots.size() - 1);
}

std::size_t PrefixIndex::bytes() const {
  return sizeof(*this) + lists_.capacity() * sizeof(List) +
         (blocks_.capacity() + alive_.capacity()) * sizeof(Word) +
         holds_.capacity() * sizeof(Hold) +
         (block_table_.slots.capacity() + hold_table_.slots.capacity()) * sizeof(std::uint32_t);
}

void PrefixIndex::set_capacity(std::uint32_t backend, std::uint32_t blocks) {
  List& list = lists_[backend];
  list.capacity = std::clamp(blocks, 1u, max_capacity_);
  while (list.size > list.capacity) release(list.last);
}

void PrefixIndex::match(std::span<const std::uint64_t> prompt,
                        std::span<std::uint32_t> depths) const {
  assert(depths.size() == lists_.size());
  const std::size_t length = std::min(prompt.size(), max_prompt_blocks);
  std::fill(depths.begin(), depths.end(), 0);
  std::fill(alive_.begin(), alive_.end(), ~Word{0});
  std::uint32_t depth = 0;
  bool any = true;
  Walk walk;
  std::size_t loaded = 0;
  for (; any && depth < length; ++depth) {
    std::uint32_t block = neighbour(walk, prompt[depth]);
    if (block == none) {
      if (depth >= loaded) {
        prefetch(prompt.subspan(depth, std::min(prefetched, length - depth)));
        loaded = depth + prefetched;
      }
      block = find_block(prompt[depth]);
    }
    if (block == none) break;
    walk.go_to(block);
    const Word* const holders = row_of(block) + first_holder_word;
    any = false;
    for (std::uint32_t word = 0; word < words_; ++word) {
      // Those that have all blocks so far but not this one.
      for (Word ended = depth == 0 ? 0 : alive_[word] & ~holders[word]; ended != 0;
           ended &= ended - 1) {
        depths[word * 64 + static_cast<std::uint32_t>(std::countr_zero(ended))] = depth;
      }
      alive_[word] &= holders[word];
      any = any || alive_[word] != 0;
    }
  }
  if (!any || depth == 0) return;
  for (std::uint32_t word = 0; word < words_; ++word) {
    for (Word rest = alive_[word]; rest != 0; rest &= rest - 1) {
      depths[word * 64 + static_cast<std::uint32_t>(std::countr_zero(rest))] = depth;
    }
  }
}

/// Loads the rows of blocks: the misses of several blocks overlap.
void PrefixIndex::prefetch(std::span<const std::uint64_t> hashes) const {
  std::array<std::uint32_t, prefetched> homes{};
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    homes[i] = home_of_block(hashes[i]);
    __builtin_prefetch(&block_table_.slots[homes[i]]);
  }
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::uint32_t block = block_table_.slots[homes[i]];
    if (block != none) __builtin_prefetch(row_of(block));
  }
}

void PrefixIndex::add(std::uint32_t backend, std::span<const std::uint64_t> prompt) {
  const auto known = prompt.first(std::min(prompt.size(), max_prompt_blocks));
  // The first block last: it is the last to be evicted.
  for (std::size_t i = known.size(); i-- > 0;) hold(backend, known[i]);
  List& list = lists_[backend];
  while (list.size > list.capacity) release(list.last);
}

void PrefixIndex::clear(std::uint32_t backend) {
  while (lists_[backend].size > 0) release(lists_[backend].last);
}

std::size_t PrefixIndex::copy(std::span<std::uint64_t> hashes) {
  std::size_t count = 0;
  for (; count < hashes.size() && copied_to_ != none; ++count) {
    const Hold& hold = holds_[copied_to_];
    hashes[count] = row_of(hold.block)[0];
    copied_to_ = hold.next;
  }
  return count;
}

std::uint32_t PrefixIndex::home_of_block(std::uint64_t hash) const {
  return static_cast<std::uint32_t>(mix(hash)) & block_table_.mask;
}

std::uint32_t PrefixIndex::home_of_hold(std::uint32_t block, std::uint32_t backend) const {
  return static_cast<std::uint32_t>(mix((std::uint64_t{block} << 32) | backend)) & hold_table_.mask;
}

std::uint32_t PrefixIndex::find_block(std::uint64_t hash) const {
  for (std::uint32_t slot = home_of_block(hash);; slot = (slot + 1) & block_table_.mask) {
    const std::uint32_t block = block_table_.slots[slot];
    if (block == none || row_of(block)[0] == hash) return block;
  }
}

std::uint32_t PrefixIndex::neighbour(const Walk& walk, std::uint64_t hash) const {
  const std::uint32_t block = walk.block + walk.direction;
  if (block >= holds_.size() || row_of(block)[0] != hash) return none;
  const std::uint32_t ahead = block + rows_ahead * walk.direction;
  if (ahead < holds_.size()) __builtin_prefetch(row_of(ahead));
  return block;
}

std::uint32_t PrefixIndex::find_hold(std::uint32_t block, std::uint32_t backend) const {
  for (std::uint32_t slot = home_of_hold(block, backend);; slot = (slot + 1) & hold_table_.mask) {
    const std::uint32_t found = hold_table_.slots[slot];
    if (found == none) return none;
    if (holds_[found].block == block && holds_[found].backend == backend) return found;
  }
}

template <class HomeOf>
void PrefixIndex::insert(Table& table, std::uint32_t entry, HomeOf home_of) {
  std::uint32_t slot = home_of(entry);
  while (table.slots[slot] != none) slot = (slot + 1) & table.mask;
  table.slots[slot] = entry;
}

/// Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithm R.
template <class HomeOf>
void PrefixIndex::erase(Table& table, std::uint32_t entry, HomeOf home_of) {
  std::uint32_t hole = home_of(entry);
  while (table.slots[hole] != entry) hole = (hole + 1) & table.mask;
  for (std::uint32_t slot = (hole + 1) & table.mask; table.slots[slot] != none;
       slot = (slot + 1) & table.mask) {
    const std::uint32_t distance_from_home = (slot - home_of(table.slots[slot])) & table.mask;
    if (distance_from_home < ((slot - hole) & table.mask)) continue;
    table.slots[hole] = table.slots[slot];
    hole = slot;
  }
  table.slots[hole] = none;
}

std::uint32_t PrefixIndex::block_of(std::uint64_t hash) {
  const std::uint32_t found = find_block(hash);
  if (found != none) return found;
  const std::uint32_t block = free_block_;
  Word* const row = row_of(block);
  free_block_ = static_cast<std::uint32_t>(row[count_word]);
  row[0] = hash;
  row[count_word] = 0;
  insert(block_table_, block,
         [this](std::uint32_t entry) { return home_of_block(row_of(entry)[0]); });
  return block;
}

void PrefixIndex::hold(std::uint32_t backend, std::uint64_t hash) {
  const std::uint32_t block = block_of(hash);
  Word* const row = row_of(block);
  Word& holders = row[first_holder_word + backend / 64];
  const Word bit = Word{1} << (backend % 64);
  List& list = lists_[backend];
  if ((holders & bit) != 0) {
    const std::uint32_t held = find_hold(block, backend);
    unlink(list, held);
    push_front(list, held);
    return;
  }
  holders |= bit;
  ++row[count_word];
  const std::uint32_t held = free_hold_;
  free_hold_ = holds_[held].next;
  holds_[held] = {.block = block, .backend = backend};
  insert(hold_table_, held, [this](std::uint32_t entry) {
    return home_of_hold(holds_[entry].block, holds_[entry].backend);
  });
  push_front(list, held);
}

void PrefixIndex::release(std::uint32_t held) {
  const Hold gone = holds_[held];
  unlink(lists_[gone.backend], held);
  erase(hold_table_, held, [this](std::uint32_t entry) {
    return home_of_hold(holds_[entry].block, holds_[entry].backend);
  });
  holds_[held].next = free_hold_;
  free_hold_ = held;
  Word* const row = row_of(gone.block);
  row[first_holder_word + gone.backend / 64] &= ~(Word{1} << (gone.backend % 64));
  if (--row[count_word] > 0) return;
  erase(block_table_, gone.block,
        [this](std::uint32_t entry) { return home_of_block(row_of(entry)[0]); });
  row[0] = no_hash;
  row[count_word] = free_block_;
  free_block_ = gone.block;
}

void PrefixIndex::unlink(List& list, std::uint32_t held) {
  const Hold& hold = holds_[held];
  if (held == copied_to_) [[unlikely]]
    copied_to_ = hold.next;
  (hold.previous == none ? list.first : holds_[hold.previous].next) = hold.next;
  (hold.next == none ? list.last : holds_[hold.next].previous) = hold.previous;
  --list.size;
}

void PrefixIndex::push_front(List& list, std::uint32_t held) {
  holds_[held].previous = none;
  holds_[held].next = list.first;
  (list.first == none ? list.last : holds_[list.first].previous) = held;
  list.first = held;
  ++list.size;
}

}  // namespace evenkeel
