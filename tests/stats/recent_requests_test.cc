#include "evenkeel/stats/recent_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace evenkeel {
namespace {

RecentRequest numbered(std::int64_t number) {
  const std::string name = std::to_string(number);
  return {.started = number,
          .request_id = std::string_view(name),
          .model = std::string_view(name),
          .prompt_tokens = number,
          .max_gap = number};
}

TEST(ShortText, KeepsTheBeginningUpToAWholeCharacter) {
  EXPECT_EQ(ShortText<4>("").view(), "");
  EXPECT_EQ(ShortText<4>("abcd").view(), "abcd");
  EXPECT_EQ(ShortText<4>("abcde").view(), "abcd");
  EXPECT_EQ(ShortText<4>("abc\u20ac").view(), "abc");
  EXPECT_EQ(ShortText<4>("a\u20ac").view(), "a\u20ac");
}

TEST(RecentRequests, AreTheLastOnes) {
  RecentRequests recent;
  std::vector<RecentRequest> requests;
  recent.append_to(requests);
  EXPECT_TRUE(requests.empty());

  const auto count = static_cast<std::int64_t>(RecentRequests::capacity) + 10;
  for (std::int64_t i = 0; i < count; ++i) recent.record(numbered(i));
  recent.append_to(requests);

  ASSERT_EQ(requests.size(), RecentRequests::capacity);
  for (const RecentRequest& each : requests) {
    EXPECT_GE(each.started, 10);
    EXPECT_EQ(each.request_id.view(), std::to_string(each.started));
  }
}

TEST(RecentRequests, CanBeReadWhileTheyAreRecorded) {
  RecentRequests recent;
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    for (std::int64_t i = 0; !stop.load(); ++i) recent.record(numbered(i));
  });

  std::size_t read = 0;
  for (int round = 0; round < 200 || read == 0; ++round) {
    std::vector<RecentRequest> requests;
    recent.append_to(requests);
    read += requests.size();
    for (const RecentRequest& each : requests) {
      ASSERT_EQ(each.model.view(), std::to_string(each.started));
      ASSERT_EQ(each.prompt_tokens, each.started);
      ASSERT_EQ(each.max_gap, each.started);
    }
  }
  stop.store(true);
  worker.join();
}

}  // namespace
}  // namespace evenkeel
