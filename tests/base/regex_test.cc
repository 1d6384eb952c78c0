#include "evenkeel/base/regex.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

TEST(Regex, MatchesAllOfAText) {
  const Regex regex("/v[12]/.*");
  EXPECT_TRUE(regex.matches("/v1/"));
  EXPECT_TRUE(regex.matches("/v2/a/b"));
  EXPECT_FALSE(regex.matches("/v3/a"));
  EXPECT_FALSE(regex.matches("/x/v1/a"));
  EXPECT_TRUE(Regex("^/x$").matches("/x"));
}

TEST(Regex, MatchesBytesThatAreNoUtf8) { EXPECT_TRUE(Regex("/.*").matches("/\xff\xfe")); }

TEST(Regex, SaysWhatIsWrongWithAPattern) {
  EXPECT_EQ(Regex("a|b").problem(), "");
  EXPECT_EQ(Regex("(a").problem(), "missing ): (a");
  EXPECT_NE(Regex("(?=a)").problem(), "");
  EXPECT_NE(Regex(R"((a)\1)").problem(), "");
  EXPECT_NE(Regex("((a{1,500}){1,500}){1,500}").problem(), "");
}

TEST(Regex, ReplacesTheFirstMatch) {
  std::string text = "/x/a/x/b";
  EXPECT_TRUE(Regex("/x/(.)").replace_first(text, R"(/\1/\0)"));
  EXPECT_EQ(text, "/a//x/a/x/b");
  EXPECT_FALSE(Regex("q").replace_first(text, "r"));
  EXPECT_EQ(text, "/a//x/a/x/b");
}

TEST(Regex, KnowsTheGroupsOfAReplacement) {
  const Regex regex("(a)(b)");
  EXPECT_EQ(regex.problem_of_replacement(R"(\2\1)"), "");
  EXPECT_NE(regex.problem_of_replacement(R"(\3)"), "");
  EXPECT_NE(regex.problem_of_replacement(R"(\x)"), "");
}

// A backtracking matcher takes 2^60 steps.
TEST(Regex, TakesLinearTime) {
  EXPECT_FALSE(Regex("(a*)*(a*)*b").matches(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace evenkeel
