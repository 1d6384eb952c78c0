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

TEST(ConfigOfBatching, IsOffUnlessThePoolSaysOtherwise) {
  const LoadResult off = read(file("models: [m]"));
  EXPECT_FALSE(off.config.pools[0].batching);
  EXPECT_FALSE(inspects(off.config.pools[0]));
  const LoadResult on = read(file("batching: {}"));
  ASSERT_TRUE(on.ok()) << testing::PrintToString(lines_of(on.problems));
  EXPECT_EQ(on.config.pools[0].batching, BatchingConfig());
  EXPECT_TRUE(inspects(on.config.pools[0])) << "the inputs are in the body";
}

TEST(ConfigOfBatching, IsPrintedAsItWasRead) {
  const LoadResult loaded =
      read(file("batching: {max_size: 64, max_wait: 20ms, max_tokens: 16384}"));
  ASSERT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  const BatchingConfig& batching = *loaded.config.pools[0].batching;
  EXPECT_EQ(batching.max_size, 64U);
  EXPECT_EQ(batching.max_wait, std::chrono::milliseconds(20));
  EXPECT_EQ(batching.max_tokens, 16384U);
  const LoadResult again = read(print_config(loaded.config, false));
  EXPECT_EQ(again.config, loaded.config) << print_config(loaded.config, false);
}

TEST(ConfigOfBatching, RefusesWhatMakesNoSense) {
  const auto problems = [](const std::string& keys) { return problems_of(file(keys)); };
  EXPECT_THAT(problems("batching: {max_size: 1}"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("batching: {max_wait: 0s}"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("batching: {max_tokens: 0}"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("dynamic_batching: {}"), ElementsAre(HasSubstr("did you mean 'batching'?")));
}

}  // namespace
}  // namespace evenkeel
