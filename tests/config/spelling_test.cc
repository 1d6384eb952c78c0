#include "evenkeel/config/spelling.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(EditDistance, CountsASwapAsOne) {
  EXPECT_EQ(edit_distance("abc", "abc", 3), 0u);
  EXPECT_EQ(edit_distance("abc", "acb", 3), 1u);
  EXPECT_EQ(edit_distance("abc", "ab", 3), 1u);
  EXPECT_EQ(edit_distance("intervall", "interval", 3), 1u);
  EXPECT_EQ(edit_distance("timeout", "tiemouts", 3), 2u);
  EXPECT_EQ(edit_distance("pools", "routes", 3), 3u);
  EXPECT_EQ(edit_distance("", "abc", 9), 3u);
}

TEST(EditDistance, StopsAtTheLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 2u);
  EXPECT_EQ(edit_distance("abcdefgh", "hgfedcba", 4), 4u);
  EXPECT_EQ(edit_distance("abcdefgh", "badcfehg", 5), 4u);  // each row ends in a swap
  EXPECT_EQ(edit_distance("xxxxabcdef", "abcdef", 5), 4u);
}

TEST(NearestWord, IsAtMostTwoEditsAway) {
  EXPECT_EQ(nearest_word("intervall", {"timeout", "interval"}), "interval");
  EXPECT_EQ(nearest_word("pol", {"pool", "split"}), "pool");
  EXPECT_EQ(nearest_word("colour", {"pool", "split"}), std::nullopt);
  EXPECT_EQ(nearest_word("abc", {"abx", "xyz"}), "abx");
  EXPECT_EQ(nearest_word("tls", {"uri"}), std::nullopt);
  EXPECT_EQ(nearest_word("x", {}), std::nullopt);
}

TEST(NearestWord, IgnoresCaseAndSeparators) {
  EXPECT_EQ(nearest_word("maxInFlight", {"max_in_flight"}), "max_in_flight");
  EXPECT_EQ(nearest_word("first-byte", {"first_byte"}), "first_byte");
}

TEST(NearestWord, MatchesAWordInsideALongerOne) {
  EXPECT_EQ(nearest_word("idle_timeout", {"connect", "idle"}), "idle");
  EXPECT_EQ(nearest_word("header_bytes", {"header", "header_fields"}), "header");
  EXPECT_EQ(nearest_word("connections", {"max_connections"}), "max_connections");
}

std::vector<std::string_view> near(std::string_view name, std::vector<std::string_view> names) {
  return near_names(name, names);
}
using Names = std::vector<std::string_view>;

TEST(NearNames, AreTheSameButForCaseAndSeparators) {
  EXPECT_EQ(near("GPT4o", {"gpt-3.5", "gpt-4o"}), Names({"gpt-4o"}));
  EXPECT_EQ(near("meta-llama/llama_3_8b", {"meta-llama/Llama-3-8B"}),
            Names({"meta-llama/Llama-3-8B"}));
}

TEST(NearNames, MayLackTheOwnerOrTheTag) {
  EXPECT_EQ(near("llama-3", {"mistral", "meta-llama/Llama-3"}), Names({"meta-llama/Llama-3"}));
  EXPECT_EQ(near("meta-llama/Llama-3", {"llama-3"}), Names({"llama-3"}));
  EXPECT_EQ(near("llama3.2", {"llama3.2:1b", "qwen"}), Names({"llama3.2:1b"}));
}

TEST(NearNames, AreAFewEditsAwayAndTheNearestComesFirst) {
  EXPECT_EQ(near("llama-4b", {"llama-70b", "llama-8b", "mixtral"}),
            Names({"llama-8b", "llama-70b"}));
  EXPECT_EQ(near("mistrall-large", {"mistral-large", "gemma"}), Names({"mistral-large"}));
  EXPECT_EQ(near("abc", {"xyz", "abd"}), Names({"abd"}));
  EXPECT_EQ(near("gpt", {"gemma", "qwen", "phi"}), Names());
}

TEST(NearNames, MayBeginWithTheName) {
  EXPECT_EQ(near("qwen2.5", {"gemma", "Qwen/Qwen2.5-72B-Instruct"}),
            Names({"Qwen/Qwen2.5-72B-Instruct"}));
  EXPECT_EQ(near("qwen2.5-72b-instruct-awq", {"qwen2.5-72b-instruct"}),
            Names({"qwen2.5-72b-instruct"}));
  EXPECT_EQ(near("q", {"qwen"}), Names());
}

TEST(NearNames, AreAtMostThreeAndNoneTwice) {
  EXPECT_EQ(near("model-x", {"model-1", "model-2", "model-2", "model-3", "model-4"}),
            Names({"model-1", "model-2", "model-3"}));
}

TEST(NearNames, CostLittleForAnyNameOfAClient) {
  const std::vector<std::string> long_names(5000, std::string(128, 'a'));
  const std::vector<std::string_view> names(long_names.begin(), long_names.end());
  EXPECT_EQ(near_names(std::string(100'000, 'a'), names), Names());
  EXPECT_EQ(near_names("", names), Names());
  EXPECT_EQ(near_names(std::string(126, 'a'), names).size(), 1u);
}

}  // namespace
}  // namespace evenkeel
