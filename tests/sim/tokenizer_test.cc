#include "sim/tokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace evenkeel {
namespace {

std::size_t count(std::string_view text) {
  std::vector<TokenId> tokens;
  append_tokens(text, tokens);
  return tokens.size();
}

TEST(Tokens, AreAboutFourBytesOfEnglish) {
  const std::string text =
      "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
      "must "
      "be in want of a wife. However little known the feelings or views of such a man may be on "
      "his "
      "first entering a neighbourhood, this truth is so well fixed in the minds of the surrounding "
      "families, that he is considered as the rightful property of some one or other of their "
      "daughters.";

  const double bytes_per_token =
      static_cast<double>(text.size()) / static_cast<double>(count(text));

  EXPECT_GT(bytes_per_token, 3.5);
  EXPECT_LT(bytes_per_token, 5.0);
}

TEST(Tokens, JoinAWordWithTheSpaceBeforeIt) {
  EXPECT_EQ(count(""), 0u);
  EXPECT_EQ(count("word"), 1u);
  EXPECT_EQ(count(" word"), 1u);
  EXPECT_EQ(count("one two three"), 3u);
  EXPECT_EQ(count("one  two"), 3u);
  EXPECT_EQ(count("    x = 12345;\n"), 7u);  // "   ", " x", " =", " 123", "45", ";", "\n"
}

TEST(Tokens, ATailDoesNotChangeTheTokensBeforeIt) {
  std::vector<TokenId> head;
  std::vector<TokenId> whole;
  append_tokens("The quick brown fox", head);
  append_tokens("The quick brown fox jumps over it", whole);

  EXPECT_TRUE(std::equal(head.begin(), head.end(), whole.begin()));
}

TEST(Tokens, GeneratedWordsAreOneTokenEachWhenSentBack) {
  std::string text;
  for (std::uint32_t i = 0; i < 500; ++i) {
    if (i > 0) text += ' ';
    text += generated_word(7, i);
  }

  EXPECT_EQ(count(text), 500u);
}

TEST(Tokens, AWordDependsOnSeedAndIndexAlone) {
  std::set<std::string_view> words;
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(generated_word(3, i), generated_word(3, i));
    words.insert(generated_word(3, i));
  }
  EXPECT_GT(words.size(), 20u);
}

TEST(Tokens, ABlocksHashCoversEverythingBeforeIt) {
  std::vector<TokenId> a(64, 5);
  std::vector<TokenId> b = a;
  b[0] = 6;

  const auto hashes_a = hash_blocks(a, 16, "");
  const auto hashes_b = hash_blocks(b, 16, "");
  const auto salted = hash_blocks(a, 16, "tenant");

  ASSERT_EQ(hashes_a.size(), 4u);
  EXPECT_EQ(std::set<std::uint64_t>(hashes_a.begin(), hashes_a.end()).size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NE(hashes_a[i], hashes_b[i]);
    EXPECT_NE(hashes_a[i], salted[i]);
  }
}

TEST(Tokens, OnlyFullBlocksHaveAHash) {
  const std::vector<TokenId> tokens(31, 5);

  EXPECT_EQ(hash_blocks(tokens, 16, "").size(), 1u);
}

TEST(Tokens, AChatSharesThePrefixOfItsEarlierTurns) {
  const Prompt first{{.role = "user", .text = "hello there"}};
  Prompt second = first;
  second.push_back({.role = "assistant", .text = "light river"});
  second.push_back({.role = "user", .text = "go on"});

  auto asked = tokenize_prompt(first, true);
  append_tokens("light river", asked);
  const auto next = tokenize_prompt(second, true);

  ASSERT_LT(asked.size(), next.size());
  EXPECT_TRUE(std::equal(asked.begin(), asked.end(), next.begin()));
}

}  // namespace
}  // namespace evenkeel
