#include "evenkeel/net/websocket_key.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(WebSocketKey, IsAcceptedAsInTheExampleOfTheRfc) {
  EXPECT_EQ(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocketKey, IsSixteenBytesThatDifferEachTime) {
  const std::string key = make_websocket_key();
  EXPECT_EQ(key.size(), 24u);
  EXPECT_TRUE(key.ends_with("=="));
  EXPECT_NE(key, make_websocket_key());
}

}  // namespace
}  // namespace evenkeel
