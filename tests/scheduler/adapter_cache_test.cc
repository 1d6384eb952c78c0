#include "scheduler/adapter_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace evenkeel::testing {
namespace {

using Adapters = std::vector<std::uint64_t>;

TEST(AdapterCache, KeepsTheAdaptersThatWereUsedLast) {
  AdapterCache cache;
  for (std::uint64_t adapter = 1; adapter <= AdapterCache::capacity; ++adapter) {
    cache.used(adapter, 1);
  }

  cache.used(1, 2);
  cache.used(100, 3);

  EXPECT_TRUE(cache.has(1));
  EXPECT_FALSE(cache.has(2)) << "it was not used for longest";
  EXPECT_TRUE(cache.has(3));
  EXPECT_TRUE(cache.has(100));
}

TEST(AdapterCache, DropsWhatTheEngineHasNoSlotFor) {
  AdapterCache cache;
  cache.reported(Adapters{1, 2}, 2, 10);

  cache.used(3, 11);

  EXPECT_TRUE(cache.has(3));
  EXPECT_TRUE(cache.has(1));
  EXPECT_FALSE(cache.has(2)) << "it was not used for longest";
}

TEST(AdapterCache, BelievesAReportButForWhatWasSentSince) {
  AdapterCache cache;
  cache.used(1, 10);
  cache.used(2, 20);

  cache.reported(Adapters{3, 4}, 3, 20.5);

  EXPECT_TRUE(cache.has(2)) << "the engine may load it just now";
  EXPECT_TRUE(cache.has(3));
  EXPECT_TRUE(cache.has(4));
  EXPECT_FALSE(cache.has(1)) << "there is no slot left";
  cache.reported(Adapters{4, 3, 1}, 3, 30);
  EXPECT_FALSE(cache.has(2));
}

TEST(AdapterCache, KeepsWhatAnEngineThatNamesNoAdaptersHasRoomFor) {
  AdapterCache cache;
  cache.used(1, 1);
  cache.used(2, 2);
  cache.used(3, 3);

  cache.reported({}, 2, 100);

  EXPECT_FALSE(cache.has(1));
  EXPECT_TRUE(cache.has(2));
  EXPECT_TRUE(cache.has(3));
}

TEST(AdapterCache, TakesNoMoreThanItHasRoomFor) {
  AdapterCache cache;
  Adapters many;
  for (std::uint64_t adapter = 1; adapter <= 100; ++adapter) many.push_back(adapter);

  cache.reported(many, 0, 1);
  cache.used(200, 2);

  EXPECT_TRUE(cache.has(1));
  EXPECT_FALSE(cache.has(AdapterCache::capacity)) << "it made room";
  EXPECT_FALSE(cache.has(100));
  EXPECT_TRUE(cache.has(200));
  cache.clear();
  EXPECT_FALSE(cache.has(200));
}

TEST(AdapterCache, TellsHowLikelyTheNextOneToGoIsMissed) {
  AdapterCache cache;
  cache.used(1, 10);
  cache.used(2, 20);
  EXPECT_EQ(cache.displaces(20), 0) << "there is room";

  cache.reported(Adapters{2, 1}, 2, 30);

  EXPECT_NEAR(cache.displaces(10), 1, 1e-9);
  EXPECT_NEAR(cache.displaces(70), std::exp(-1), 1e-9) << "the report does not make it newer";
  EXPECT_LT(cache.displaces(1000), 1e-6);
}

TEST(AdapterCache, KeepsAllThatRequestsUseAlthoughSomeWaitForASlot) {
  AdapterCache cache;

  cache.reported(Adapters{1, 2, 3}, 1, 10);

  EXPECT_TRUE(cache.has(1) && cache.has(2) && cache.has(3));
}

}  // namespace
}  // namespace evenkeel::testing
