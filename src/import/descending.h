// Sorts what a file lists.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace evenkeel::import {

/// Sorts by descending key. Items of the same key keep their order. (clang rejects
/// std::stable_sort, whose buffer is deprecated in libstdc++ 12.)
template <class Item, class KeyOf>
void sort_descending(std::vector<Item>& items, KeyOf key_of) {
  using Key = decltype(key_of(std::as_const(items.front())));
  std::multimap<Key, Item, std::greater<>> sorted;
  for (Item& item : items) {
    Key key = key_of(std::as_const(item));
    sorted.emplace(std::move(key), std::move(item));
  }
  std::size_t i = 0;
  for (auto& [key, item] : sorted) items[i++] = std::move(item);
}

}  // namespace evenkeel::import
