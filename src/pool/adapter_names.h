// The names by which requests to a pool ask for LoRA adapters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {

/// Maps the hash of a name to the adapter that it stands for: open addressing, at most half full.
///
/// Thread: one at a time. `find` allocates nothing.
class AdapterNames {
 public:
  /// The most names that are added: no engine serves as many.
  static constexpr std::size_t capacity = 1u << 16;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Returns 0 if it is not the name of an adapter.
  std::uint64_t find(std::uint64_t name) const {
    return size_ == 0 || name == 0 ? 0 : entries_[place_of(name)].adapter;
  }
  /// A name keeps its adapter. Names and adapters are never 0.
  void add(std::uint64_t name, std::uint64_t adapter) {
    if (name == 0 || adapter == 0 || size_ == capacity) return;
    if (2 * (size_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[place_of(name)];
    if (entry.name != 0) return;
    entry = {name, adapter};
    ++size_;
  }

 private:
  struct Entry {
    std::uint64_t name = 0;
    std::uint64_t adapter = 0;
  };

  std::size_t place_of(std::uint64_t name) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t place = mix(name) & mask;
    while (entries_[place].name != 0 && entries_[place].name != name) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    std::vector<Entry> before(entries_.empty() ? 16 : 2 * entries_.size());
    before.swap(entries_);
    for (const Entry& each : before) {
      if (each.name != 0) entries_[place_of(each.name)] = each;
    }
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace evenkeel
