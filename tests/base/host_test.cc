#include "evenkeel/base/host.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(NormalHost, IsOneForAllSpellings) {
  for (const char* same : {"api.example.com", "API.Example.COM", "api.example.com."}) {
    EXPECT_EQ(normal_host(same), "api.example.com") << same;
  }
  for (const char* same : {"::1", "[::1]", "0:0:0:0:0:0:0:1", "0::0001"}) {
    EXPECT_EQ(normal_host(same), "::1") << same;
  }
  for (const char* same : {"127.0.0.1", "::ffff:127.0.0.1", "[::FFFF:7f00:1]"}) {
    EXPECT_EQ(normal_host(same), "127.0.0.1") << same;
  }
  EXPECT_EQ(normal_host("2001:DB8::0:1"), "2001:db8::1");
}

TEST(NormalAuthority, HasNoDefaultPort) {
  EXPECT_EQ(normal_authority("A.test.:80", false), "a.test");
  EXPECT_EQ(normal_authority("a.test:0443", true), "a.test");
  EXPECT_EQ(normal_authority("a.test:443", false), "a.test:443");
  EXPECT_EQ(normal_authority("[0::1]:", false), "[::1]");
  EXPECT_EQ(normal_authority("[0::1]:8000", false), "[::1]:8000");
}

TEST(AuthorityOf, NamesThePortUnlessItIsTheDefault) {
  EXPECT_EQ(authority_of("a.test", 443, true), "a.test");
  EXPECT_EQ(authority_of("a.test", 443, false), "a.test:443");
  EXPECT_EQ(authority_of("::1", 8000, false), "[::1]:8000");
}

}  // namespace
}  // namespace evenkeel
