#include "evenkeel/base/path.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace evenkeel {
namespace {

std::string normalised(std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  return path ? std::string(*path) : "error: " + path.error().detail;
}

bool refused(std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  return !path && path.error().fault == Fault::bad_request && path.error().side == Side::client;
}

TEST(NormalisedPath, KeepsPlainPathsAndRemovesTheQuery) {
  EXPECT_EQ(normalised("/"), "/");
  EXPECT_EQ(normalised("/v1/models"), "/v1/models");
  EXPECT_EQ(normalised("/v1/models/"), "/v1/models/");
  EXPECT_EQ(normalised("/v1?a=/../b//c"), "/v1");
  EXPECT_EQ(normalised("/v1?a=%zz"), "/v1");
  EXPECT_EQ(normalised("/?"), "/");
  EXPECT_EQ(normalised("*"), "*");
  EXPECT_EQ(normalised("/a.b/.c"), "/a.b/.c");
  EXPECT_EQ(normalised("/a/..b/b../..."), "/a/..b/b../...");
}

TEST(NormalisedPath, ResolvesDotSegmentsAndMergesSlashes) {
  EXPECT_EQ(normalised("/a/./b"), "/a/b");
  EXPECT_EQ(normalised("/a/../b"), "/b");
  EXPECT_EQ(normalised("/a/b/.."), "/a/");
  EXPECT_EQ(normalised("/a/b/."), "/a/b/");
  EXPECT_EQ(normalised("/a/.."), "/");
  EXPECT_EQ(normalised("/."), "/");
  EXPECT_EQ(normalised("//"), "/");
  EXPECT_EQ(normalised("///a//b///"), "/a/b/");
  EXPECT_EQ(normalised("/a//../b"), "/b");
}

TEST(NormalisedPath, SeesWhatIsNotPlainAtEveryPlace) {
  for (std::size_t before = 0; before < 40; ++before) {
    for (std::size_t after = 0; after < 40; ++after) {
      const std::string front = "/" + std::string(before, 'a');
      const std::string back(after, 'b');
      const std::string plain = front + back;
      EXPECT_EQ(normalised(plain), plain);
      EXPECT_EQ(normalised(plain + "/"), plain + (plain == "/" ? "" : "/"));
      EXPECT_EQ(normalised(front + "?" + back), front);
      EXPECT_EQ(normalised(front + "%62" + back), front + "b" + back);
      EXPECT_EQ(normalised(front + "x//" + back), front + "x/" + back);
      EXPECT_EQ(normalised(front + "x/./" + back), front + "x/" + back);
      EXPECT_EQ(normalised(front + "x/../" + back), "/" + back);
    }
  }
}

TEST(NormalisedPath, DecodesUnreservedCharactersBeforeItResolvesDots) {
  EXPECT_EQ(normalised("/%61dmin"), "/admin");
  EXPECT_EQ(normalised("/a/%2e%2E/b"), "/b");
  EXPECT_EQ(normalised("/a/.%2e/b"), "/b");
  EXPECT_EQ(normalised("/%7Euser/%2D%5F%30"), "/~user/-_0");
}

TEST(NormalisedPath, KeepsReservedCharactersEncoded) {
  EXPECT_EQ(normalised("/a%2Fb"), "/a%2Fb");
  EXPECT_EQ(normalised("/a%2f..%2fb"), "/a%2F..%2Fb");
  EXPECT_EQ(normalised("/a%5C..%5cb"), "/a%5C..%5Cb");
  EXPECT_EQ(normalised("/a%20b%3F"), "/a%20b%3F");
  EXPECT_EQ(normalised("/%252e%252e/a"), "/%252e%252e/a");  // once, not twice
  EXPECT_EQ(normalised("/%c3%bc"), "/%C3%BC");
}

TEST(NormalisedPath, RefusesInvalidPaths) {
  for (const std::string_view target :
       {"/..", "/../a", "/a/../../b", "/%2e%2e", "/a/..//..", "/%", "/%4", "/%zz", "/a%0", "/%00",
        "/a%00b", "/%2", "/./..", "//..", "/%-1"}) {
    EXPECT_TRUE(refused(target)) << target << " became " << normalised(target);
  }
}

TEST(PercentDecoded, DecodesOnceAndKeepsWhatIsNoEncoding) {
  EXPECT_EQ(percent_decoded("org%2Fmodel%3a1"), "org/model:1");
  EXPECT_EQ(percent_decoded("a%252Fb"), "a%2Fb");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%zz%4"), "%zz%4");
}

}  // namespace
}  // namespace evenkeel
