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

}  // namespace
}  // namespace evenkeel
