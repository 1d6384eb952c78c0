#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string file(const std::string& keys) {
  return "pools: [{name: a, backends: [127.0.0.1:1], " + keys + "}]\n";
}

TEST(ConfigOfAnswersAskedForBefore, IsOffUnlessThePoolSaysOtherwise) {
  const LoadResult off = read(file("models: [m]"));
  EXPECT_FALSE(reuses_answers(off.config.pools[0]));
  EXPECT_FALSE(inspects(off.config.pools[0]));
  for (const char* const keys : {"cache: {}", "coalesce: deterministic", "coalesce: all"}) {
    const LoadResult on = read(file(keys));
    ASSERT_TRUE(on.ok()) << keys;
    EXPECT_TRUE(reuses_answers(on.config.pools[0])) << keys;
    EXPECT_TRUE(inspects(on.config.pools[0])) << "what is asked for is in the body";
  }
  EXPECT_FALSE(reuses_answers(read(file("coalesce: off")).config.pools[0]));
}

TEST(ConfigOfAnswersAskedForBefore, IsPrintedAsItWasRead) {
  const LoadResult loaded = read(file(
      "coalesce: all, cache: {memory: 64MiB, ttl: 5m, stale_if_error: 0s, for: [embeddings]}"));
  ASSERT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  const CacheConfig& cache = *loaded.config.pools[0].cache;
  EXPECT_EQ(cache.memory_bytes, 64U << 20);
  EXPECT_EQ(cache.ttl, std::chrono::minutes(5));
  EXPECT_THAT(cache.requests, ElementsAre(CachedRequests::embeddings));
  const LoadResult again = read(print_config(loaded.config, false));
  EXPECT_EQ(again.config, loaded.config) << print_config(loaded.config, false);
}

TEST(ConfigOfAnswersAskedForBefore, RefusesWhatMakesNoSense) {
  const auto problems = [](const std::string& keys) { return problems_of(file(keys)); };
  EXPECT_THAT(problems("coalesce: some"), ElementsAre(HasSubstr("deterministic")));
  EXPECT_THAT(problems("cache: {memory: 1KiB}"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("cache: {ttl: 0s}"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("cache: {for: [images]}"), ElementsAre(HasSubstr("embeddings")));
  EXPECT_THAT(problems("proxy_cache: {}"), ElementsAre(HasSubstr("did you mean 'cache'?")));
}

}  // namespace
}  // namespace evenkeel
