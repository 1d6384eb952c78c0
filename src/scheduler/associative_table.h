// A table of fixed size: a few places for each key, as in a cache of a processor.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {

/// Values by 64-bit key. When the places of a key are taken, its value replaces the one that is
/// worth least. Everything is allocated by the constructor.
///
/// Thread: one at a time.
template <class Value>
class AssociativeTable {
 public:
  /// Holds `entries` values, rounded up to a power of two of at least eight.
  explicit AssociativeTable(std::size_t entries)
      : sets_(std::bit_ceil((entries + ways - 1) / ways)) {}

  /// Null if the key has no value.
  const Value* find(std::uint64_t key) const {
    for (const Entry& entry : sets_[index_of(key)]) {
      if (entry.taken && entry.key == key) return &entry.value;
    }
    return nullptr;
  }

  Value* find(std::uint64_t key) {
    return const_cast<Value*>(std::as_const(*this).find(key));  // NOLINT: the table is not const
  }

  template <class See>
  void for_each(See see) const {
    for (const Set& set : sets_) {
      for (const Entry& entry : set) {
        if (entry.taken) see(entry.key, entry.value);
      }
    }
  }

  /// The value of the key; a new one if it has none. `worth` orders the values that a new one may
  /// replace.
  template <class Worth>
  Value& find_or_add(std::uint64_t key, Worth worth) {
    Entry* least = nullptr;
    for (Entry& entry : sets_[index_of(key)]) {
      if (entry.taken && entry.key == key) return entry.value;
      const bool lower =
          least == nullptr ||
          (least->taken && (!entry.taken || worth(entry.value) < worth(least->value)));
      if (lower) least = &entry;
    }
    *least = {.key = key, .taken = true, .value = {}};
    return least->value;
  }

 private:
  static constexpr std::size_t ways = 8;
  struct Entry {
    std::uint64_t key = 0;
    bool taken = false;
    Value value{};
  };
  using Set = std::array<Entry, ways>;

  std::size_t index_of(std::uint64_t key) const { return mix(key) & (sets_.size() - 1); }

  std::vector<Set> sets_;
};

}  // namespace evenkeel
