// Recycled memory for small objects that every request allocates and frees.
#pragma once

#include <algorithm>
#include <cstddef>

namespace evenkeel {

namespace detail {

struct FreeNode {
  FreeNode* next;
};

/// One thread's free lists. Trivially constructed, so that access needs no initialisation check; an
/// object that the thread's first release creates returns their memory to the heap.
struct FreeLists {
  static constexpr std::size_t granule = 64;
  static constexpr std::size_t classes = 8192 / granule;
  /// How many objects of a class a thread caches: enough for the requests that are in flight on a
  /// busy worker. Bounds the memory that a burst leaves.
  static constexpr unsigned max_cached(std::size_t index) {
    constexpr std::size_t least = 256;
    constexpr std::size_t most = 4096;
    constexpr std::size_t max_bytes = 1024 * 1024;
    return static_cast<unsigned>(std::clamp(max_bytes / ((index + 1) * granule), least, most));
  }

  FreeNode* head[classes];
  unsigned slots_left[classes];  // how many more may be cached
};

extern constinit thread_local FreeLists free_lists;

void* allocate_from_heap(std::size_t size);
void free_to_heap(void* memory, std::size_t size) noexcept;

}  // namespace detail

/// Takes `size` bytes from this thread's free lists (size classes of 64 bytes up to 8 KiB; larger
/// sizes from the heap). Thread: any; another thread may free the memory.
inline void* allocate_pooled(std::size_t size) {
  using detail::FreeLists;
  const std::size_t index = (size - 1) / FreeLists::granule;
  if (index < FreeLists::classes) [[likely]] {
    if (detail::FreeNode* node = detail::free_lists.head[index]; node != nullptr) [[likely]] {
      detail::free_lists.head[index] = node->next;
      ++detail::free_lists.slots_left[index];
      return node;
    }
  }
  return detail::allocate_from_heap(size);
}

inline void free_pooled(void* memory, std::size_t size) noexcept {
  using detail::FreeLists;
  const std::size_t index = (size - 1) / FreeLists::granule;
  if (index < FreeLists::classes && detail::free_lists.slots_left[index] > 0) [[likely]] {
    auto* node = static_cast<detail::FreeNode*>(memory);
    node->next = detail::free_lists.head[index];
    detail::free_lists.head[index] = node;
    --detail::free_lists.slots_left[index];
    return;
  }
  detail::free_to_heap(memory, size);
}

/// Base of types whose objects are allocated from the free lists.
struct Pooled {
  static void* operator new(std::size_t size) { return allocate_pooled(size); }
  static void operator delete(void* memory, std::size_t size) noexcept {
    free_pooled(memory, size);
  }
};

}  // namespace evenkeel
