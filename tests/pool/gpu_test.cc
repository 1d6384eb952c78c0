#include <gtest/gtest.h>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr double guard = 0.95;

LoadSample memory(double ratio) {
  return {.running = 0,
          .waiting = 0,
          .gpu_memory_used_bytes = 80e9 * ratio,
          .gpu_memory_total_bytes = 80e9};
}
LoadSample cache(double ratio) { return {.running = 0, .waiting = 0, .kv_cache_ratio = ratio}; }

class Gpu : public ::testing::Test {
 protected:
  Gpu() {
    for (const auto& backend : *backends) {
      for (int i = 0; i < 1000; ++i) backend->stats().record_first_byte(100ms, noon);
    }
  }
  void publish(std::size_t index, const LoadSample& values) {
    (*backends)[index]->signals().publish(values, noon, (*backends)[index]->slots().in_flight());
  }
  std::vector<int> picks() {
    auto picker =
        make_picker({.backends = backends, .choice = {.name = "gpu", .memory_guard = guard}}, 3);
    return count_picks(*picker, *backends, 300);
  }
  // The requests per backend after so many picks that all stay in flight.
  std::vector<std::uint32_t> in_flight_after(int requests) {
    auto picker =
        make_picker({.backends = backends, .choice = {.name = "gpu", .memory_guard = guard}}, 3);
    for (int i = 0; i < requests; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);
    std::vector<std::uint32_t> counts;
    for (const auto& backend : *backends) counts.push_back(backend->slots().in_flight());
    return counts;
  }

  std::shared_ptr<Backends> backends = some_backends(3);
};

TEST_F(Gpu, NeverPicksABackendOverItsMemoryGuardWhileAnotherIsAvailable) {
  for (int i = 0; i < 100; ++i) (*backends)[0]->try_acquire(noon);
  for (int i = 0; i < 100; ++i) (*backends)[1]->try_acquire(noon);
  publish(2, memory(0.96));
  EXPECT_EQ(picks()[2], 0) << "its VRAM is full, though it is idle";

  publish(2, cache(0.97));
  EXPECT_EQ(picks()[2], 0) << "its KV cache is full";

  publish(2, memory(0.5));
  EXPECT_EQ(picks()[2], 300);
}

TEST_F(Gpu, PicksAmongAllWhenAllAreOverTheGuard) {
  for (std::size_t i = 0; i < 3; ++i) publish(i, cache(0.99));

  const auto counts = in_flight_after(30);

  for (const auto count : counts) EXPECT_EQ(count, 10u);
}

TEST_F(Gpu, PrefersAFullBackendToOneInBackOff) {
  publish(0, memory(0.99));
  (*backends)[1]->state().connect_failed(noon);
  (*backends)[2]->state().connect_failed(noon);

  EXPECT_EQ(picks()[0], 300);
}

TEST_F(Gpu, AvoidsABackendWhoseMemoryFillsUp) {
  publish(0, cache(0.2));
  publish(1, cache(0.2));
  publish(2, cache(0.93));

  const auto counts = in_flight_after(90);

  EXPECT_GT(counts[2], 5u) << "dear, not closed";
  EXPECT_LT(counts[2], 15u);
}

TEST_F(Gpu, IgnoresMemoryWhileItIsPlentiful) {
  publish(0, cache(0.1));
  publish(1, cache(0.5));
  publish(2, cache(0.75));

  for (const auto count : in_flight_after(60)) EXPECT_EQ(count, 20u);
}

TEST_F(Gpu, SubstitutesTheMeanForUnknownValues) {
  // The others are busy and fairly full; of the third nothing is known, which makes it no better
  // and no worse.
  const LoadSample busy{.kv_cache_ratio = 0.9, .gpu_utilization_ratio = 0.98};
  publish(0, busy);
  publish(1, busy);

  const auto counts = in_flight_after(300);

  EXPECT_NEAR(counts[2], 100, 10);
}

TEST_F(Gpu, PrefersTheIdleGpu) {
  for (std::size_t i = 0; i < 3; ++i) publish(i, {.gpu_utilization_ratio = i == 1 ? 0.05 : 0.95});

  EXPECT_EQ(picks()[1], 300);
}

TEST_F(Gpu, PrefersTheFasterBackend) {
  for (int i = 0; i < 100; ++i) (*backends)[2]->stats().record_first_byte(50ms, noon);

  EXPECT_EQ(picks()[2], 300);
}

TEST_F(Gpu, WithoutAGuardDeprioritizesNoBackend) {
  publish(0, memory(1));
  auto picker =
      make_picker({.backends = backends, .choice = {.name = "gpu", .memory_guard = 0}}, 3);

  EXPECT_GT(count_picks(*picker, *backends, 300)[0], 50);
}

// A pool whose only free slot is on a backend above its memory guard.
class GuardedPool : public ::testing::Test {
 protected:
  GuardedPool() {
    PoolSpec spec = some_pool(2, 1);
    spec.config.picker.name = "gpu";
    spec.config.picker.memory_guard = guard;
    state = PoolState::build(std::move(spec));
    full = state->backends()[0].get();
    other = state->backends()[1].get();
    full->signals().publish(memory(0.99), Clock::now(), 0);
  }

  Loop loop;
  std::shared_ptr<PoolState> state;
  const Backend* full;
  const Backend* other;
};

TEST_F(GuardedPool, QueuesRequestsForTheOtherBackend) {
  Pool pool(state, loop, 1);
  auto first = pool.acquire({});
  ASSERT_TRUE(first.ready());
  auto lease = first.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend().get(), other);

  auto second = pool.acquire({});
  ASSERT_FALSE(second.ready()) << "it queues although the full backend has a slot";
  ASSERT_TRUE(full->try_acquire(Clock::now()));
  full->release();  // offers its slot to the queue, where no request may use it
  EXPECT_EQ(full->slots().in_flight(), 0u);

  lease->release();
  loop.run_until([&] { return second.ready(); });
  auto granted = second.take();
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->backend().get(), other);
}

}  // namespace
}  // namespace evenkeel::testing
