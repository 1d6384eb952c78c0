// A pick allocates nothing.
#include <gtest/gtest.h>

#include "balance/some_backends.h"
#include "counted_allocations.h"
#include "evenkeel/base/loop.h"

#ifndef EVENKEEL_FOREIGN_ALLOCATOR

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
