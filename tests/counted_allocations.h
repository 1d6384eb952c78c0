// Replaces this binary's operator new by one that counts its calls. For one source file of a
// binary; not in builds with a sanitizer, which has its own allocator (EVENKEEL_SANITIZED).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "sanitizers.h"

#ifndef EVENKEEL_SANITIZED

namespace {

thread_local std::size_t allocations = 0;
/// Called once, in this thread's next allocation; null: nothing is.
thread_local const std::function<void()>* on_next_allocation = nullptr;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (const auto* const action = std::exchange(on_next_allocation, nullptr)) (*action)();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif  // EVENKEEL_SANITIZED
