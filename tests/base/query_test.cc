#include "evenkeel/base/query.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenkeel {
namespace {

std::vector<std::string> parameters_of(std::string_view target) {
  std::vector<std::string> found;
  any_parameter(target, [&](const std::string& name, const std::string& value) {
    found.push_back(name + "=" + value);
    return false;
  });
  return found;
}

TEST(Query, HasParametersWithTheirValues) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(parameters_of("/a?b=c&d&=e&&f=g=h"), (Found{"b=c", "d=", "=e", "f=g=h"}));
  EXPECT_EQ(parameters_of("/?a+b=%63%2B"), (Found{"a b=c+"}));
  EXPECT_EQ(parameters_of("/a"), Found{});
  EXPECT_EQ(parameters_of("/a?"), Found{});
}

TEST(Query, StopsAtTheFirstThatMatches) {
  int looked_at = 0;
  EXPECT_TRUE(any_parameter("/?a&b&c", [&](const std::string& name, const std::string&) {
    ++looked_at;
    return name == "b";
  }));
  EXPECT_EQ(looked_at, 2);
}

TEST(SegmentsBeforeRest, AreThoseBeforeTwoStars) {
  EXPECT_EQ(segments_before_rest("/a/*/**"), 2U);
  EXPECT_EQ(segments_before_rest("/**"), 0U);
  EXPECT_EQ(segments_before_rest(""), 0U);
  EXPECT_EQ(after_segments("/a/b/c", 2), "/c");
  EXPECT_EQ(after_segments("/a/b", 2), "");
  EXPECT_EQ(after_segments("/a", 2), "");
  EXPECT_EQ(after_segments("/a/", 1), "/");
}

}  // namespace
}  // namespace evenkeel
