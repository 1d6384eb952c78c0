// The keys of canaries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string with_canary(const std::string& canary,
                        const std::string& target = "split: {a: 95, b: 5}") {
  return "pools:\n"
         "  - {name: a, backends: [{address: h:1, labels: {version: v7}},\n"
         "                         {address: h:2, labels: {version: v8}}]}\n"
         "  - {name: b, backends: [h:3]}\n"
         "routes: [{" +
         target + ", canary: " + canary + "}]\n";
}

CanaryConfig canary_of(const std::string& text) {
  const LoadResult loaded = read(text);
  EXPECT_THAT(lines_of(loaded.problems), IsEmpty());
  for (const bool with_defaults : {false, true})
    EXPECT_EQ(read(print_config(loaded.config, with_defaults)).config, loaded.config)
        << print_config(loaded.config, with_defaults);
  return *loaded.config.routes.at(0).canary;
}

TEST(ConfigOfCanaries, NamesATargetAndItsBounds) {
  EXPECT_EQ(canary_of(with_canary("{target: b, error_rate: 5%, ttft: 2s}")),
            (CanaryConfig{.target = "b", .error_rate = 0.05, .ttft = std::chrono::seconds(2)}));
  EXPECT_EQ(canary_of(with_canary("{target: 'version = v8', ttft: 1s, window: 5m}",
                                  "pool: a, split: {version=v7: 95, version=v8: 5}"))
                .target,
            "version=v8");
}

TEST(ConfigOfCanaries, HasABound) {
  EXPECT_THAT(problems_of(with_canary("{target: b}")),
              Contains(HasSubstr("has no bounds, so that it would never go back")));
}

TEST(ConfigOfCanaries, IsATargetOfTheSplit) {
  EXPECT_THAT(problems_of(with_canary("{target: c, ttft: 1s}")),
              Contains(HasSubstr("'split' has no target 'c'; its targets are a, b")));
  EXPECT_THAT(problems_of(with_canary("{target: a, ttft: 1s}", "pool: a")),
              Contains(HasSubstr("is a target of 'split', which is not there")));
  EXPECT_THAT(problems_of(with_canary("{target: a, ttft: 1s}", "respond: {status: 200}")),
              Contains(HasSubstr("no pool gets the requests of a route with 'respond'")));
}

TEST(ConfigOfCanaries, HasSomethingThatTakesItsPlace) {
  EXPECT_THAT(problems_of(with_canary("{target: b, ttft: 1s}", "split: {a: 0, b: 5}")),
              Contains(HasSubstr("no other target has a share")));
}

}  // namespace
}  // namespace evenkeel
