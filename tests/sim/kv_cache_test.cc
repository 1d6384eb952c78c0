#include "evenkeel/sim/kv_cache.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using Owned = std::vector<KvCache::Block>;

TEST(KvCache, FindsAPublishedBlockAfterItsRelease) {
  KvCache cache(4);
  const std::vector<std::uint64_t> prefix{11, 12};
  Owned owned;
  ASSERT_TRUE(cache.allocate(2, owned));
  cache.publish(owned[0], 11);
  cache.publish(owned[1], 12);

  cache.release(owned);

  EXPECT_EQ(cache.free(), 4u);
  EXPECT_EQ(cache.find(prefix).blocks, 2u);
  EXPECT_EQ(cache.find(prefix).unreferenced, 2u);
}

TEST(KvCache, APrefixEndsAtTheFirstBlockThatIsMissing) {
  KvCache cache(4);
  Owned owned;
  ASSERT_TRUE(cache.allocate(2, owned));
  cache.publish(owned[0], 11);
  cache.publish(owned[1], 13);

  const std::vector<std::uint64_t> prefix{11, 12, 13};

  EXPECT_EQ(cache.find(prefix).blocks, 1u);
  EXPECT_EQ(cache.find(prefix).unreferenced, 0u);
}

TEST(KvCache, EvictsTheLeastRecentlyReleasedFirstAndATailBeforeItsHead) {
  KvCache cache(4);
  Owned older;
  Owned newer;
  ASSERT_TRUE(cache.allocate(2, older));
  ASSERT_TRUE(cache.allocate(2, newer));
  cache.publish(older[0], 1);
  cache.publish(older[1], 2);
  cache.publish(newer[0], 3);
  cache.publish(newer[1], 4);
  cache.release(older);
  cache.release(newer);

  Owned taken;
  ASSERT_TRUE(cache.allocate(1, taken));

  const std::vector<std::uint64_t> old_prefix{1, 2};
  const std::vector<std::uint64_t> new_prefix{3, 4};
  EXPECT_EQ(cache.find(old_prefix).blocks, 1u);
  EXPECT_EQ(cache.find(new_prefix).blocks, 2u);
}

TEST(KvCache, AllocatesAnEmptyBlockInLruOrderOrFirst) {
  const std::vector<std::uint64_t> prefix{7};
  for (const bool evict_empty_first : {false, true}) {
    KvCache cache(2, evict_empty_first);
    Owned content;
    Owned nothing;
    ASSERT_TRUE(cache.allocate(1, content));
    ASSERT_TRUE(cache.allocate(1, nothing));
    cache.publish(content[0], 7);
    cache.release(content);
    cache.release(nothing);

    Owned taken;
    ASSERT_TRUE(cache.allocate(1, taken));

    EXPECT_EQ(cache.find(prefix).blocks, evict_empty_first ? 1u : 0u);
  }
}

TEST(KvCache, NeverAllocatesAPinnedBlock) {
  KvCache cache(2);
  const std::vector<std::uint64_t> prefix{7};
  Owned first;
  Owned second;
  Owned third;
  ASSERT_TRUE(cache.allocate(1, first));
  cache.publish(first[0], 7);
  cache.pin(prefix, second);
  cache.release(first);

  EXPECT_EQ(cache.free(), 1u);
  EXPECT_FALSE(cache.allocate(2, third));
  EXPECT_TRUE(third.empty());
  EXPECT_TRUE(cache.allocate(1, third));
  EXPECT_EQ(cache.find(prefix).blocks, 1u);
}

TEST(KvCache, TheSecondBlockOfOneContentIsNotFound) {
  KvCache cache(2);
  const std::vector<std::uint64_t> prefix{7};
  Owned first;
  Owned twin;
  ASSERT_TRUE(cache.allocate(1, first));
  ASSERT_TRUE(cache.allocate(1, twin));
  cache.publish(first[0], 7);
  cache.publish(twin[0], 7);

  cache.release(twin);

  EXPECT_EQ(cache.find(prefix).unreferenced, 0u);
  Owned taken;
  ASSERT_TRUE(cache.allocate(1, taken));
  EXPECT_EQ(cache.find(prefix).blocks, 1u);
}

}  // namespace
}  // namespace evenkeel
