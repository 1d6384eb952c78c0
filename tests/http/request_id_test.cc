#include "evenkeel/http/request_id.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {
namespace {

TEST(RequestId, OfAClientIsUsedOnlyIfItIsShortAndPlain) {
  EXPECT_TRUE(is_valid_request_id("req_2024-01.A"));
  EXPECT_TRUE(is_valid_request_id(std::string(128, 'a')));
  EXPECT_FALSE(is_valid_request_id(""));
  EXPECT_FALSE(is_valid_request_id(std::string(129, 'a')));
  for (const char* bad : {"a b", "a\"b", "a\nb", "gr\u00fcn", "a/b", "a,b"}) {
    EXPECT_FALSE(is_valid_request_id(bad)) << bad;
  }
}

TEST(RequestId, IsCheckedAtEveryByte) {
  constexpr std::string_view good =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.";
  for (const std::size_t size : {1u, 15u, 16u, 17u, 31u, 32u, 36u, 128u}) {
    for (std::size_t at = 0; at < size; ++at) {
      for (unsigned c = 0; c < 256; ++c) {
        std::string id(size, 'a');
        id[at] = static_cast<char>(c);
        ASSERT_EQ(is_valid_request_id(id), good.find(id[at]) != good.npos)
            << testing::PrintToString(id);
      }
    }
  }
}

TEST(RequestId, ThatIsMadeIsAUuidOfVersion7) {
  Rng rng(1);

  const RequestIdText made = make_request_id(rng);

  const std::string id(made.data(), made.size());
  EXPECT_TRUE(is_valid_request_id(id));
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos) << id;
  for (const std::size_t dash : {8u, 13u, 18u, 23u}) EXPECT_EQ(id[dash], '-') << id;
  EXPECT_EQ(id[14], '7') << id;
  EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos) << id;
}

TEST(RequestId, BeginsWithTheTimeInMilliseconds) {
  const auto unix_ms = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  Rng rng(1);
  const auto before = unix_ms();

  const RequestIdText made = make_request_id(rng);

  const auto after = unix_ms();
  const std::string id(made.data(), made.size());
  const auto stamp =
      static_cast<std::int64_t>(std::stoull(id.substr(0, 8) + id.substr(9, 4), nullptr, 16));
  EXPECT_GE(stamp, before);
  EXPECT_LE(stamp, after);
}

TEST(RequestId, DiffersBetweenRequests) {
  Rng rng(1);
  EXPECT_NE(make_request_id(rng), make_request_id(rng));
}

}  // namespace
}  // namespace evenkeel
