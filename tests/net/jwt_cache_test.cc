#include "evenkeel/net/jwt_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace evenkeel {
namespace {

std::shared_ptr<const JwtClaims> claims(const std::string& subject, double expires) {
  auto made = std::make_shared<JwtClaims>();
  made->subject = subject;
  made->expires = expires;
  return made;
}

std::string found(const JwtCache& cache, const std::string& token, double now = 0) {
  const auto claims = cache.find(sha256(token), now);
  return claims == nullptr ? "nothing" : claims->subject;
}

TEST(JwtCache, KnowsTokensUntilTheyExpire) {
  JwtCache cache;
  cache.put(sha256("a"), claims("alice", 100));

  EXPECT_EQ(found(cache, "a", 99.9), "alice");
  EXPECT_EQ(found(cache, "a", 100), "nothing");
  EXPECT_EQ(found(cache, "b", 99.9), "nothing");
}

TEST(JwtCache, KeepsTheLastClaimsOfAToken) {
  JwtCache cache(2);
  cache.put(sha256("a"), claims("alice", 100));
  cache.put(sha256("a"), claims("bob", 200));

  EXPECT_EQ(found(cache, "a", 150), "bob");
  EXPECT_EQ(cache.size(), 1u);
}

TEST(JwtCache, ReplacesTheOldestTokens) {
  JwtCache cache(3);
  for (const std::string token : {"a", "b", "c"}) cache.put(sha256(token), claims(token, 100));
  for (const std::string token : {"d", "e"}) cache.put(sha256(token), claims(token, 100));
  cache.put(sha256("d"), claims("again", 100));

  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(found(cache, "a"), "nothing");
  EXPECT_EQ(found(cache, "b"), "nothing");
  EXPECT_EQ(found(cache, "c"), "c");
  EXPECT_EQ(found(cache, "d"), "again");
  EXPECT_EQ(found(cache, "e"), "e");
  for (int i = 0; i < 10; ++i) cache.put(sha256(std::to_string(i)), claims(std::to_string(i), 100));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(found(cache, "6"), "nothing");
  EXPECT_EQ(found(cache, "7"), "7");
  EXPECT_EQ(found(cache, "9"), "9");
}

}  // namespace
}  // namespace evenkeel
