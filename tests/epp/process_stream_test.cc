#include "epp/process_stream.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

PoolConfig pool_with(const char* picker) {
  PoolConfig pool;
  pool.picker.name = picker;
  return pool;
}

TEST(LearningFromAnswers, IsForPoolsThatCountOrMeasureRequests) {
  EXPECT_TRUE(learns_from_answers(pool_with("least-connections")));
  EXPECT_TRUE(learns_from_answers(pool_with("expected-time")));
  EXPECT_FALSE(learns_from_answers(pool_with("round-robin")));
  EXPECT_FALSE(learns_from_answers(pool_with("weighted")));
}

TEST(LearningFromAnswers, IsForPoolsThatKeepOrLimitThem) {
  PoolConfig limited = pool_with("round-robin");
  limited.limits.max_in_flight = 1;
  PoolConfig caching = pool_with("round-robin");
  caching.cache.emplace();

  EXPECT_TRUE(learns_from_answers(limited));
  EXPECT_TRUE(learns_from_answers(caching));
}

}  // namespace
}  // namespace evenkeel
