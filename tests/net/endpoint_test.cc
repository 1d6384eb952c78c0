#include "evenkeel/net/endpoint.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

Endpoint at(const std::string& host, std::uint16_t port = 80) {
  return resolve(host, port)->front();
}

bool contains(const std::string& network, const std::string& address) {
  const auto cidr = Cidr::parse(network);
  EXPECT_TRUE(cidr) << network;
  return cidr && cidr->contains(at(address));
}

TEST(Endpoint, HasTheUsualTextForm) {
  EXPECT_EQ(at("192.0.2.1", 8080).text(), "192.0.2.1:8080");
  EXPECT_EQ(at("2001:DB8::0:1", 8080).text(), "[2001:db8::1]:8080");
  EXPECT_EQ(at("::1").host(), "::1");
  EXPECT_EQ(at("::ffff:192.0.2.1").host(), "192.0.2.1");
  EXPECT_EQ(at("192.0.2.1", 8080).port(), 8080);
  Endpoint changed = at("::1");
  changed.set_port(9);
  EXPECT_EQ(changed.text(), "[::1]:9");
}

TEST(Resolve, ReportsWhyResolutionFails) {
  const auto nothing = resolve("no such host", 80);
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().detail.find("no such host"), std::string::npos);
}

TEST(Cidr, ContainsWhatItsPrefixSays) {
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.200"));
  EXPECT_FALSE(contains("192.0.2.128/25", "192.0.2.127"));
  EXPECT_TRUE(contains("192.0.2.1", "192.0.2.1"));
  EXPECT_FALSE(contains("192.0.2.1", "192.0.2.2"));
  EXPECT_TRUE(contains("0.0.0.0/0", "8.8.8.8"));
  EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(contains("::1/128", "::1"));
  EXPECT_TRUE(contains("10.0.0.0/8", "::ffff:10.1.1.1"));
  EXPECT_TRUE(contains("::/0", "1.2.3.4"));
}

TEST(Cidr, RejectsInvalidNetworks) {
  for (const char* text : {"", "10.0.0.0/33", "10.0.0/8", "::1/129", "10.0.0.0/", "10.0.0.0/8x",
                           "/8", "host", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0 /8"}) {
    EXPECT_FALSE(Cidr::parse(text)) << text;
  }
}

}  // namespace
}  // namespace evenkeel
