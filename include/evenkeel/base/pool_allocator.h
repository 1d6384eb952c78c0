// Recycled memory for small objects that come and go with every request.
#pragma once

#include <cstddef>

namespace evenkeel {

/// Takes `size` bytes from this thread's free lists (size classes of 64 bytes up to 8 KiB; beyond
/// that, the general heap). Thread: any; memory may be given back on another thread.
void* take_pooled(std::size_t size);
void give_pooled(void* memory, std::size_t size) noexcept;

/// Base of types whose objects are allocated from the free lists.
struct Pooled {
  static void* operator new(std::size_t size) { return take_pooled(size); }
  static void operator delete(void* memory, std::size_t size) noexcept { give_pooled(memory, size); }
};

}  // namespace evenkeel
