#include "server/client_connections.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

class ClientConnectionsTest : public testing::Test {
 protected:
  ClientNumber number_of(const std::string& address) const {
    return connections.number_of(resolve(address, 1)->front());
  }
  void open(ClientNumber client, int count) {
    for (int i = 0; i < count; ++i) connections.opened(client);
  }
  bool is_large(ClientNumber client) const {
    return connections.size_of(client) == ClientSize::large;
  }

  ClientConnections connections;
};

TEST_F(ClientConnectionsTest, AreLargeIfTheyHaveMoreThanFiveQuartersOfAShareOfTheLimit) {
  connections.set_limit(100);
  open(1, 50);
  open(2, 62);
  EXPECT_FALSE(is_large(2));

  open(2, 1);
  EXPECT_TRUE(is_large(2));
  EXPECT_FALSE(is_large(1));

  connections.closed(2);
  EXPECT_FALSE(is_large(2));
}

TEST_F(ClientConnectionsTest, HaveSmallerSharesTheMoreThereAre) {
  connections.set_limit(100);
  open(1, 130);  // some are about to be closed
  EXPECT_FALSE(is_large(1)) << "it is alone";

  open(2, 1);
  EXPECT_TRUE(is_large(1));

  connections.closed(2);
  EXPECT_FALSE(is_large(1));
}

TEST_F(ClientConnectionsTest, ShareWhatIsOpenWhereThereIsNoLimit) {
  open(1, 3);
  open(2, 6);
  EXPECT_TRUE(is_large(2));
  open(3, 9);
  EXPECT_FALSE(is_large(2));
  EXPECT_TRUE(is_large(3));
}

TEST_F(ClientConnectionsTest, AreNotLargeWithAFewOfVeryMany) {
  connections.set_limit(25'600);
  for (ClientNumber client = 1; client <= 3000; ++client) open(client, 1);
  open(1, 99);
  EXPECT_FALSE(is_large(1));
  open(1, 1);
  EXPECT_TRUE(is_large(1));
}

TEST_F(ClientConnectionsTest, OfNoClientAreNotCounted) {
  connections.set_limit(10);
  open(0, 100);
  open(1, 10);
  EXPECT_FALSE(is_large(0));
  EXPECT_FALSE(is_large(1));
}

TEST_F(ClientConnectionsTest, AreOfAnAddressOrOfANetworkOfIpv6) {
  EXPECT_NE(number_of("192.0.2.1"), 0);
  EXPECT_EQ(number_of("192.0.2.1"), number_of("::ffff:192.0.2.1"));
  EXPECT_EQ(number_of("2001:db8:0:1::1"), number_of("2001:db8:0:1:ffff::9"));

  int same = 0;
  for (int i = 1; i <= 100; ++i) {
    if (number_of("192.0.2." + std::to_string(i)) == number_of("192.0.2.200")) ++same;
  }
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace evenkeel
