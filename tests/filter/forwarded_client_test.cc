#include "evenkeel/filter/forwarded_client.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

using NameAndValue = std::pair<std::string_view, std::string_view>;

/// The client that the fields name to a listener that trusts 10.0.0.0/8 and fd00::/8; "none".
std::string client_of(std::initializer_list<NameAndValue> named) {
  std::string why;
  const std::vector<Network> trusted{*parse_network("10.0.0.0/8", why),
                                     *parse_network("fd00::/8", why)};
  Fields fields;
  for (const auto& [name, value] : named) fields.add(name, value);
  return std::string(forwarded_client(fields, trusted).value_or("none"));
}

TEST(ForwardedClient, IsTheLastAddressThatIsNoTrustedProxy) {
  EXPECT_EQ(client_of({{"x-forwarded-for", "192.0.2.1"}}), "192.0.2.1");
  EXPECT_EQ(client_of({{"x-forwarded-for", "198.51.100.1, 192.0.2.1 ,10.0.0.1, fd00::1"}}),
            "192.0.2.1");
  EXPECT_EQ(
      client_of({{"x-forwarded-for", "198.51.100.1, 192.0.2.1"}, {"x-forwarded-for", "10.0.0.1"}}),
      "192.0.2.1");
}

TEST(ForwardedClient, IsTheFirstAddressWhenAllAreTrusted) {
  EXPECT_EQ(client_of({{"x-forwarded-for", "10.0.0.9, 10.0.0.1"}}), "10.0.0.9");
}

TEST(ForwardedClient, IsNotLookedForBeforeANameThatIsNoAddress) {
  EXPECT_EQ(client_of({{"x-forwarded-for", "192.0.2.1, unknown"}}), "none");
  EXPECT_EQ(client_of({{"x-forwarded-for", "192.0.2.1, unknown, 10.0.0.1"}}), "10.0.0.1");
  EXPECT_EQ(client_of({{"x-forwarded-for", "192.0.2.1, [::1"}}), "none");
  EXPECT_EQ(client_of({{"x-forwarded-for", ""}}), "none");
  EXPECT_EQ(client_of({{"x-forwarded-for", " , ,"}}), "none");
  EXPECT_EQ(client_of({}), "none");
}

TEST(ForwardedClient, HasNoPort) {
  EXPECT_EQ(client_of({{"x-forwarded-for", "192.0.2.1:4711"}}), "192.0.2.1");
  EXPECT_EQ(client_of({{"x-forwarded-for", "[2001:db8::1]:4711"}}), "2001:db8::1");
  EXPECT_EQ(client_of({{"x-forwarded-for", "2001:db8::1"}}), "2001:db8::1");
}

TEST(ForwardedClient, IsOneHoweverItIsWritten) {
  for (const char* text : {"::ffff:192.0.2.1", "[::FFFF:c000:201]:4711", "192.0.2.1:1"}) {
    EXPECT_EQ(client_of({{"x-forwarded-for", text}}), "192.0.2.1") << text;
  }
  EXPECT_EQ(client_of({{"x-forwarded-for", "2001:DB8:0:0::1, ::ffff:10.0.0.1"}}), "2001:db8::1");
  EXPECT_EQ(client_of({{"forwarded", "for=\"[2001:DB8::0:1]\""}}), "2001:db8::1");
}

TEST(ForwardedClient, ComesFromForwardedWhereThereIsNoXForwardedFor) {
  EXPECT_EQ(client_of({{"forwarded", "for=192.0.2.1;proto=https;by=10.0.0.1"}}), "192.0.2.1");
  EXPECT_EQ(client_of({{"forwarded", "for=198.51.100.1, proto=http; For=\"[2001:db8::1]:47\""},
                       {"forwarded", "for=10.0.0.2"}}),
            "2001:db8::1");
  EXPECT_EQ(client_of({{"forwarded", "for=192.0.2.1, for=_hidden"}}), "none");
  EXPECT_EQ(client_of({{"forwarded", "proto=https"}}), "none");
  EXPECT_EQ(client_of({{"forwarded", "for=192.0.2.1"}, {"x-forwarded-for", "192.0.2.2"}}),
            "192.0.2.2");
}

}  // namespace
}  // namespace evenkeel
