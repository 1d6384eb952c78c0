// A few items of a large range of indices, which one thread adds while others read them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace evenkeel {

/// Items by index, each in an allocation of its own: for arrays most of whose items are never made.
/// An access compares indices one by one. Each item has its own cache lines, so that the arrays of
/// two workers share none; it never moves and lives as long as the array. An item whose index is
/// removed is kept for another one.
///
/// Thread: `at` on one thread, `find` and `each` on any, `remove_if` on any, one at a time. `each`
/// may visit an item that is being removed.
template <class T>
class SparseArray {
 public:
  SparseArray() = default;
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;
  ~SparseArray() {
    for (Item* item = first_.load(std::memory_order_relaxed); item != nullptr;) {
      delete std::exchange(item, item->next);
    }
  }

  /// The item, made if it does not exist yet. Its address never changes.
  T& at(std::uint32_t index) {
    Item* const item = find_from(first_.load(std::memory_order_relaxed), index);
    return item != nullptr ? item->value : make(index);
  }

  /// The item, or null if it does not exist yet.
  const T* find(std::uint32_t index) const {
    const Item* const item = find_from(first_.load(std::memory_order_acquire), index);
    return item == nullptr ? nullptr : &item->value;
  }

  /// Calls `visit` with each item that exists, in no order.
  template <class Visit>
  void each(Visit visit) const {
    for (const Item* item = first_.load(std::memory_order_acquire); item != nullptr;
         item = item->next) {
      if (item->index.load(std::memory_order_acquire) != removed) visit(item->value);
    }
  }

  /// Removes the items whose index fulfils `is_removed`. REQUIRES: nothing uses those.
  template <class Predicate>
  void remove_if(Predicate is_removed) {
    for (Item* item = first_.load(std::memory_order_acquire); item != nullptr; item = item->next) {
      const std::uint32_t index = item->index.load(std::memory_order_relaxed);
      if (index == removed || !is_removed(index)) continue;
      item->value.clear();
      // Release: what gets the item next finds it cleared.
      item->index.store(removed, std::memory_order_release);
    }
  }

 private:
  static constexpr std::uint32_t removed = std::numeric_limits<std::uint32_t>::max();

  struct alignas(64) Item {
    Item(std::uint32_t item_index, Item* next_item) : next(next_item), index(item_index) {}
    T value{};
    Item* const next;
    std::atomic<std::uint32_t> index;
  };

  static Item* find_from(Item* item, std::uint32_t index) {
    while (item != nullptr && item->index.load(std::memory_order_acquire) != index) {
      item = item->next;
    }
    return item;
  }

  [[gnu::noinline]] T& make(std::uint32_t index) {
    Item* const free = find_from(first_.load(std::memory_order_relaxed), removed);
    if (free != nullptr) {
      free->index.store(index, std::memory_order_release);
      return free->value;
    }
    auto made = std::make_unique<Item>(index, first_.load(std::memory_order_relaxed));
    // Release: a reader that sees the item sees it constructed.
    first_.store(made.get(), std::memory_order_release);
    return made.release()->value;
  }

  std::atomic<Item*> first_{nullptr};
};

}  // namespace evenkeel
