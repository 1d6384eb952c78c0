#include "evenkeel/base/memory_reserve.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <utility>

#include "evenkeel/base/clock.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// As `operator new` does when there is no memory. True: it would try again.
bool tries_again() {
  try {
    std::get_new_handler()();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

/// On a thread of its own, which has waited for no memory before.
template <class Work>
void on_thread(Work work) {
  std::thread(std::move(work)).join();
}

TEST(MemoryReserve, IsUsedBeforeAThreadWaitsForMemory) {
  MemoryPressureLevel pressure;
  const MemoryReserve reserve(pressure);
  const Instant began = Clock::now();

  on_thread([] {
    EXPECT_TRUE(tries_again());
    EXPECT_TRUE(tries_again());
  });

  EXPECT_EQ(pressure.get(), MemoryPressure::critical);
  EXPECT_GE(Clock::now() - began, 20ms) << "the second time it has waited";
}

TEST(MemoryReserve, MakesAThreadWaitForSomeSecondsOnly) {
  MemoryPressureLevel pressure;
  const MemoryReserve reserve(pressure);
  const Instant began = Clock::now();
  bool again = true;

  on_thread([&] {
    while (again && Clock::now() - began < 60s) again = tries_again();
  });

  EXPECT_FALSE(again);
  EXPECT_GE(Clock::now() - began, 3s);
}

TEST(MemoryReserve, NoThreadWaitsForMemoryWithALockThatOthersNeed) {
  MemoryPressureLevel pressure;
  const MemoryReserve reserve(pressure);

  on_thread([] {
    {
      const NoWaitForMemory no_wait;
      EXPECT_TRUE(tries_again()) << "with the reserve";
      EXPECT_FALSE(tries_again());
    }
    EXPECT_TRUE(tries_again());
  });
}

TEST(MemoryReserve, IsNotForThreadsThatSurviveAFailedAllocation) {
  MemoryPressureLevel pressure;
  const MemoryReserve reserve(pressure);
  bool again = true;

  on_thread([&] {
    fail_allocations_at_once();
    again = tries_again();
  });

  EXPECT_FALSE(again);
}

}  // namespace
}  // namespace evenkeel
