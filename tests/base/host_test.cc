#include "evenkeel/base/host.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

TEST(NormalHost, SeesOneUpperCaseLetterAnywhere) {
  for (std::size_t size = 1; size < 40; ++size) {
    const std::string lower(size, 'a');
    EXPECT_EQ(normal_host(lower), lower);
    for (std::size_t at = 0; at < size; ++at) {
      for (const char other : {'A', 'Z', '@', '[', '\xc1', '\xda'}) {
        std::string host = lower;
        host[at] = other;
        std::string expected = lower;
        if (other != 'A') expected[at] = other == 'Z' ? 'z' : other;
        EXPECT_EQ(normal_host(host), expected);
      }
    }
  }
}

TEST(NormalAuthority, IsNormalItself) {
  for (const std::string_view normal : {"api.example.com", "127.0.0.1:8000", "a:443", "b:8", "h",
                                        "", "[::1]:8000", "[::1]", "1.2.3.4:65535", "a:1443"}) {
    EXPECT_TRUE(is_normal_authority(normal, false)) << normal;
    EXPECT_EQ(normal_authority(normal, false), normal);
  }
  for (const std::string_view other : {"A", "a.", "a:80", "a:080", "a:", "a:08000", "a.:8000",
                                       "A:8000", "[::ffff:1.2.3.4]", "[::0]:8000", "[::1]:80"}) {
    EXPECT_FALSE(is_normal_authority(other, false)) << other;
    EXPECT_TRUE(is_normal_authority(normal_authority(other, false), false)) << other;
  }
}

}  // namespace
}  // namespace evenkeel
