// A pick allocates nothing. Counts every allocation of this binary; not in builds with a sanitizer,
// which has its own allocator.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "balance/some_backends.h"
#include "evenkeel/base/loop.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVENKEEL_FOREIGN_ALLOCATOR
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EVENKEEL_FOREIGN_ALLOCATOR
#endif
#endif

#ifndef EVENKEEL_FOREIGN_ALLOCATOR

namespace {

thread_local std::size_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
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

namespace evenkeel::testing {
namespace {

TEST(NoAllocation, TheCounterCounts) {
  const std::size_t before = allocations;
  auto something = std::make_unique<Backend>(some_spec(1));
  EXPECT_GT(allocations, before);
}

TEST(NoAllocation, InAPick) {
  for (auto name : known_pickers()) {
    for (std::size_t count : {4u, 500u}) {
      auto backends = some_backends(count, 2);
      auto picker = make_picker(name, {.backends = backends}, 1);
      Hint hint{.now = noon};
      hint.excluded.add((*backends)[0].get());

      const std::size_t before = allocations;
      for (std::uint64_t key = 0; key < 3 * count; ++key) {
        hint.key = key;
        const BackendPtr* chosen = picker->pick(hint);
        if (chosen != nullptr) (*chosen)->try_acquire(noon);
      }

      EXPECT_EQ(allocations, before) << name << " over " << count;
    }
  }
}

TEST(NoAllocation, InAcquireAndRelease) {
  auto state = PoolState::build(some_pool(4, 100));
  Loop loop;
  Pool pool(state, loop, 1);

  const std::size_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    auto task = pool.acquire({});
    ASSERT_TRUE(task.ready());
    auto lease = task.take();
    ASSERT_TRUE(lease);
  }

  EXPECT_EQ(allocations, before);
  EXPECT_EQ(state->in_flight(), 0u);
}

}  // namespace
}  // namespace evenkeel::testing

#endif  // EVENKEEL_FOREIGN_ALLOCATOR
