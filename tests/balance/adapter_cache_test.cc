#include "balance/adapter_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace evenkeel::testing {
namespace {

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

TEST(AdapterCache, BelievesAReportButForWhatWasSentLately) {
  AdapterCache cache;
  cache.used(1, 10);
  cache.used(2, 19);

  cache.reported(std::vector<std::uint64_t>{3}, 20);

  EXPECT_FALSE(cache.has(1));
  EXPECT_TRUE(cache.has(2)) << "the engine may load it just now";
  EXPECT_TRUE(cache.has(3));
  cache.reported({}, 21);
  EXPECT_FALSE(cache.has(3));
}

TEST(AdapterCache, TakesNoMoreThanItHasRoomFor) {
  AdapterCache cache;
  std::vector<std::uint64_t> many;
  for (std::uint64_t adapter = 1; adapter <= 100; ++adapter) many.push_back(adapter);

  cache.reported(many, 1);
  cache.used(200, 2);

  EXPECT_TRUE(cache.has(1));
  EXPECT_FALSE(cache.has(100));
  EXPECT_TRUE(cache.has(200));
  cache.clear();
  EXPECT_FALSE(cache.has(200));
}

}  // namespace
}  // namespace evenkeel::testing
