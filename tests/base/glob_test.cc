#include "evenkeel/base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

TEST(Glob, MatchesTheWholeText) {
  EXPECT_TRUE(matches_glob("llama-*", "llama-8b"));
  EXPECT_TRUE(matches_glob("llama-*", "llama-"));
  EXPECT_TRUE(matches_glob("*/llama-*-instruct", "meta/llama-3-8b-instruct"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("a**b", "ab"));
  EXPECT_FALSE(matches_glob("llama-*", "my-llama-8b"));
  EXPECT_FALSE(matches_glob("*-8b", "llama-8b-chat"));
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_FALSE(matches_glob("Llama", "llama"));
  EXPECT_TRUE(matches_glob("Llama*", "lLAMA-8b", LetterCase::ignored));
}

TEST(Glob, ABackslashMakesAStarOrABackslashLiteral) {
  EXPECT_TRUE(matches_glob("a\\*b", "a*b"));
  EXPECT_FALSE(matches_glob("a\\*b", "axb"));
  EXPECT_TRUE(matches_glob("*\\*", "ab*"));
  EXPECT_FALSE(matches_glob("*\\*", "ab"));
  EXPECT_TRUE(matches_glob("a\\\\b", "a\\b"));
  EXPECT_TRUE(matches_glob("a\\b", "a\\b")) << "elsewhere it stands for itself";
  for (const char* text : {"", "a", "*", "a*b\\", "\\*", "\\\\"}) {
    EXPECT_TRUE(matches_glob(glob_of(text), text)) << text;
    EXPECT_FALSE(is_glob(glob_of(text))) << text;
    EXPECT_EQ(text_of_glob(glob_of(text)), text);
    EXPECT_FALSE(matches_glob(glob_of(text), std::string(text) + "x")) << text;
  }
  EXPECT_TRUE(is_glob("a*"));
}

TEST(Glob, TakesNoMoreThanTheProductOfTheSizes) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(matches_glob(pattern + "b", std::string(10'000, 'a')));
}

}  // namespace
}  // namespace evenkeel
