#include "evenkeel/config/address.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(Address, RoundTrips) {
  std::string why;
  for (const char* text : {"127.0.0.1:80", "[::1]:8080", "gpu1.internal:1", "0.0.0.0:0"}) {
    const auto address = parse_address(text, why);
    ASSERT_TRUE(address) << text << ": " << why;
    EXPECT_EQ(to_string(*address), text);
  }
  EXPECT_EQ(to_string(*parse_address(":80", why)), "0.0.0.0:80");
  EXPECT_EQ(to_string(*parse_address("*:80", why)), "0.0.0.0:80");
}

TEST(Address, IsOneHoweverItIsWritten) {
  std::string why;
  const auto same = [&](std::string_view a, std::string_view b) {
    const auto first = parse_backend_address(a, why);
    const auto second = parse_backend_address(b, why);
    return first && second && to_string(*first) == to_string(*second);
  };

  EXPECT_TRUE(same("GPU1.Internal:8000", "gpu1.internal:8000"));
  EXPECT_TRUE(same("gpu1.internal.:8000", "gpu1.internal:8000"));
  EXPECT_TRUE(same("HTTP://gpu1:80/", "http://GPU1"));
  EXPECT_TRUE(same("https://gpu1", "Https://gpu1.:443"));
  EXPECT_TRUE(same("[2001:DB8:0:0::1]:1", "[2001:db8::1]:1"));
  EXPECT_TRUE(same("[::ffff:10.0.0.1]:1", "10.0.0.1:1"));
  EXPECT_TRUE(same("[::FFFF:a00:1]:1", "10.0.0.1:1"));
  EXPECT_FALSE(same("gpu1:1", "gpu1:2"));
  // The resolver tries no search domains with a name that ends in a dot.
  EXPECT_EQ(parse_backend_address("GPU1.internal.:80", why)->host, "gpu1.internal.");
}

TEST(Address, RejectsInvalidText) {
  for (const char* text :
       {"", ":", "a", "a:", "a:x", "a:-1", "a:65536", "[::1]", "[::1]80", "[a]:1", "::1:80",
        "a b:1", "-a:1", "a..b:1", "1.2.3:4", "http://a:1", "[:1", "]:1"}) {
    std::string why;
    EXPECT_FALSE(parse_address(text, why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

TEST(Network, ContainsAddressesWithItsPrefix) {
  std::string why;
  const auto holds = [&](const char* network, const char* ip) {
    return parse_network(network, why)->contains(*parse_ip(ip));
  };

  EXPECT_TRUE(holds("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(holds("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(holds("10.0.0.0/8", "::ffff:10.1.1.1"));
  EXPECT_TRUE(holds("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(holds("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(holds("::1", "::1"));
  EXPECT_FALSE(holds("::1", "::2"));
  EXPECT_TRUE(holds("fd00::/8", "fdff::1"));
  EXPECT_TRUE(holds("0.0.0.0/0", "8.8.8.8"));
  EXPECT_FALSE(holds("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(holds("::/0", "8.8.8.8"));
}

TEST(Network, RejectsInvalidText) {
  for (const char* text :
       {"", "10.0.0.0/", "10.0.0.0/33", "10.0.0.1/8", "::1/129", "a/8", "10/8"}) {
    std::string why;
    EXPECT_FALSE(parse_network(text, why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

}  // namespace
}  // namespace evenkeel
