// A pick allocates nothing.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <utility>
#include <vector>

#include "counted_allocations.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "evenkeel/scheduler/scheduler.h"
#include "pool/versioned_pool.h"

#ifndef EVENKEEL_SANITIZED

namespace evenkeel::testing {
namespace {

TEST(NoAllocation, TheCounterCounts) {
  const std::size_t before = allocations;
  auto something = std::make_unique<Backend>(some_spec(1));
  EXPECT_GT(allocations, before);
}

TEST(NoAllocation, InAPick) {
  for (const std::string& name : picker_names()) {
    for (std::size_t count : {4u, 500u}) {
      auto backends = some_backends(count, 2);
      auto picker = make_picker({.backends = backends, .choice = {.name = name}}, 1);
      Hint hint{.now = noon};
      hint.excluded.add((*backends)[0].get());

      const std::size_t before = allocations;
      for (std::uint64_t key = 0; key < 3 * count; ++key) {
        hint.key = key;
        const std::array<std::uint64_t, 3> blocks = {1, 2, key};
        if (const auto own = picker->key_of({.blocks = blocks})) hint.key = own;
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

TEST(NoAllocation, WhileRequestsWaitForAnotherVersion) {
  auto state = PoolState::build(versioned_pool(3, 1, 1));
  Loop loop;
  Pool pool(state, loop, 1);
  const Hint stable{.subset = state->backend_set().number_of(v7)};
  const Hint canary{.subset = state->backend_set().number_of(v8)};
  auto held = pool.acquire(canary).take();
  auto waiting = pool.acquire(canary);
  ASSERT_FALSE(waiting.ready());

  const std::size_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    auto lease = pool.acquire(stable).take();
    ASSERT_TRUE(lease);
    auto any = pool.acquire({}).take();
    ASSERT_TRUE(any);
  }

  EXPECT_EQ(allocations, before) << "they have looked into the queue";
}

TEST(NoAllocation, InTheDecisionsOfAScheduler) {
  Scheduler scheduler({.slots = 4, .config = {.index_bytes = 1 << 20}});
  for (std::uint32_t slot = 0; slot < 4; ++slot) scheduler.add_backend(slot, {.identity = slot});
  Rng rng(1);
  std::vector<std::uint64_t> blocks(64);
  std::vector<Scheduler::Ticket> streams;
  streams.reserve(100);
  Instant now = noon;
  const auto serve_some = [&](int requests) {
    for (int i = 0; i < requests; ++i) {
      for (auto& block : blocks) block = rng();
      scheduler.arrive({.prompt_tokens = 2000,
                        .prefix_blocks = blocks,
                        .tokens_per_block = 32,
                        .tenant = rng.below(50)},
                       now);
      for (const auto& placement : scheduler.place(now)) streams.push_back(placement.ticket);
      now += std::chrono::milliseconds(200);
      for (const auto ticket : streams) scheduler.first_token(ticket, now);
      for (const auto ticket : streams)
        scheduler.token(ticket, 10, std::chrono::milliseconds(20), now);
      for (const auto ticket : streams) scheduler.finished(ticket, {.output_tokens = 10}, now);
      streams.clear();
    }
  };
  serve_some(500);

  const std::size_t before = allocations;
  serve_some(500);

  EXPECT_EQ(allocations, before);
}

// Three million blocks, and ten times what fits.
TEST(NoAllocation, InALongRunOfAPrefixIndexWhichHoldsItsByteCap) {
  constexpr std::size_t cap = 4 << 20;
  PrefixIndex index(16, cap);
  Rng rng(13);
  std::vector<std::uint64_t> prompt(60);
  std::vector<std::uint32_t> depths(16);
  const std::size_t bytes = index.bytes();

  const std::size_t before = allocations;
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t family = rng.below(20'000);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = mix(i < 8 ? i : family * 64 + i);
    index.match(prompt, depths);
    index.add(rng.below(16), prompt);
    if (step % 1000 == 0) index.clear(rng.below(16));
    if (step % 77 == 0) index.set_capacity(rng.below(16), 1 + rng.below(4000));
  }

  EXPECT_EQ(allocations, before);
  EXPECT_EQ(index.bytes(), bytes);
  EXPECT_LE(bytes, cap);
}

/// A table of tens of thousands of names takes milliseconds to build.
TEST(NoAllocation, WhileRequestsAreKeptFromASchedulerThatLearnsTheNamesOfAdapters) {
  PoolSpec spec = some_pool(1, 0);
  spec.config.picker.name = "expected-time";
  spec.config.picker.index_bytes = 1 << 20;
  const auto state = PoolState::build(std::move(spec));
  OfferedAdapters offered;
  for (std::uint64_t name = 1; name <= 1000; ++name) {
    offered.push_back({.name = name, .adapter = name});
  }
  state->backends()[0]->signals().engine().offers(std::move(offered));
  std::vector<std::future<void>> readers;
  bool blocked = false;
  std::function<void()> check;
  check = [&] {
    readers.push_back(std::async(std::launch::async, [&] { state->scheduled()->stats(); }));
    blocked = readers.back().wait_for(std::chrono::seconds(10)) != std::future_status::ready;
    if (!blocked) on_next_allocation = &check;
  };

  on_next_allocation = &check;
  state->tick(noon);
  on_next_allocation = nullptr;

  EXPECT_FALSE(blocked);
  EXPECT_GT(readers.size(), 5u);
}

}  // namespace
}  // namespace evenkeel::testing

#endif  // EVENKEEL_SANITIZED
