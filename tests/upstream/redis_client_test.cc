#include "evenkeel/upstream/redis_client.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using Kind = RedisReply::Kind;

TEST(RedisReply, IsReadOnceAllOfItIsThere) {
  const std::string bytes = "*5\r\n:0\r\n$2\r\n17\r\n$-1\r\n+OK\r\n*0\r\n-ERR no\r\n";
  for (std::size_t size = 0; size < bytes.size() - 9; ++size) {
    std::string_view part(bytes.data(), size);
    RedisReply reply;
    EXPECT_EQ(parse_redis_reply(part, reply), RedisParse::incomplete) << size;
    EXPECT_EQ(part.size(), size);
  }
  std::string_view rest = bytes;
  RedisReply reply;
  ASSERT_EQ(parse_redis_reply(rest, reply), RedisParse::reply);
  ASSERT_EQ(reply.items.size(), 5U);
  EXPECT_EQ(reply.items[0], (RedisReply{.kind = Kind::integer, .text = {}, .items = {}}));
  EXPECT_EQ(reply.items[1].text, "17");
  EXPECT_EQ(reply.items[2].kind, Kind::null);
  EXPECT_EQ(reply.items[3].text, "OK");
  EXPECT_EQ(reply.items[4].kind, Kind::list);
  ASSERT_EQ(parse_redis_reply(rest, reply), RedisParse::reply);
  EXPECT_EQ(reply.kind, Kind::error);
  EXPECT_EQ(reply.text, "ERR no");
  EXPECT_TRUE(rest.empty());
}

TEST(RedisReply, IsRefusedWhenItIsNone) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\n"), std::string("\r\n"), std::string("$x\r\n"),
        std::string("$-2\r\n"), std::string("*-7\r\n"), std::string("$2\r\nabc\r\n"),
        std::string("$99999999999\r\n"), std::string("*5000\r\n"),
        std::string("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), std::string(2'000'000, 'x')}) {
    std::string_view rest = bytes;
    RedisReply reply;
    EXPECT_EQ(parse_redis_reply(rest, reply), RedisParse::malformed) << bytes.substr(0, 30);
  }
}

TEST(RedisCommand, HasEachWordWithItsSize) {
  std::string out;
  append_redis_command(out, {"SET", "key"}, {"a\r\nb", ""});
  EXPECT_EQ(out, "*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
}

}  // namespace
}  // namespace evenkeel
