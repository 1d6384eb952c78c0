#include "proxy/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

constexpr int conversations = 20'000;

std::uint64_t conversation(int number) { return hash_of("conversation-" + std::to_string(number)); }

/// The version that each conversation gets: the first whose border is above its point.
std::vector<int> versions(const std::vector<std::uint32_t>& shares, std::uint64_t salt = 7) {
  std::uint32_t sum = 0;
  for (const std::uint32_t share : shares) sum += share;
  std::vector<int> chosen;
  for (int number = 0; number < conversations; ++number) {
    std::uint32_t point = split_point(conversation(number), salt, sum);
    int version = 0;
    while (point >= shares[static_cast<std::size_t>(version)]) {
      point -= shares[static_cast<std::size_t>(version)];
      ++version;
    }
    chosen.push_back(version);
  }
  return chosen;
}

double share_of(int version, const std::vector<int>& chosen) {
  return static_cast<double>(std::count(chosen.begin(), chosen.end(), version)) /
         static_cast<double>(chosen.size());
}

TEST(SplitPoint, KeepsToTheShares) {
  const auto chosen = versions({80, 15, 5});

  EXPECT_NEAR(share_of(0, chosen), 0.80, 0.01);
  EXPECT_NEAR(share_of(1, chosen), 0.15, 0.01);
  EXPECT_NEAR(share_of(2, chosen), 0.05, 0.01);
}

TEST(SplitPoint, MovesOnlyWhatALargerShareGains) {
  const auto before = versions({95, 5});
  const auto after = versions({90, 10});

  int moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    ++moved;
    EXPECT_EQ(after[i], 1);
  }
  EXPECT_NEAR(moved / double{conversations}, 0.05, 0.01);
}

TEST(SplitPoint, IsTheSameForSharesInOtherUnits) {
  EXPECT_EQ(versions({95, 5}), versions({190, 10}));
  EXPECT_EQ(versions({95, 5}), versions({9500, 500}));
}

TEST(SplitPoint, OfOneRouteTellsNothingOfAnothers) {
  const auto one = versions({50, 50}, hash_of("one"));
  const auto other = versions({50, 50}, hash_of("other"));

  int same = 0;
  for (std::size_t i = 0; i < one.size(); ++i) same += one[i] == other[i] ? 1 : 0;
  EXPECT_NEAR(same / double{conversations}, 0.5, 0.02);
}

TEST(SplitPoint, IsTheSameEverywhere) {
  // Values of this version: another one would send running conversations to other pools.
  EXPECT_EQ(split_point(hash_of("session-1"), hash_of("chat"), 10'000), 1536u);
  EXPECT_EQ(split_point(hash_of("session-2"), hash_of("chat"), 10'000), 3987u);
}

Request request_with(std::string_view session, std::string_view body_session,
                     std::uint64_t prompt) {
  Request request;
  if (!session.empty()) request.fields.add("x-session-id", session);
  request.info.inference = std::make_unique<InferenceInfo>();
  request.info.inference->request.task = InferenceTask::chat;
  request.info.inference->request.session = body_session;
  request.info.inference->request.conversation = prompt;
  return request;
}

TEST(ConversationOf, PrefersTheHeaderThenTheSessionOfTheBodyThenThePrompt) {
  const auto of = [](const Request& request) { return conversation_of(request, "x-session-id"); };

  EXPECT_EQ(of(request_with("a", "b", 3)), hash_of("a"));
  EXPECT_EQ(of(request_with("", "b", 3)), hash_of("b"));
  EXPECT_EQ(of(request_with("", "", 3)), 3u);
  EXPECT_EQ(of(request_with("", "", 0)), std::nullopt);

  Request completion = request_with("", "", 3);
  completion.info.inference->request.task = InferenceTask::completion;
  EXPECT_EQ(of(completion), std::nullopt) << "prompts of one template begin alike";
}

TEST(ConversationOf, KnowsOnlyTheHeaderIfTheBodyWasNotInspected) {
  Request request;
  EXPECT_EQ(conversation_of(request, "x-session-id"), std::nullopt);

  request.fields.add("X-Session-Id", "a");
  EXPECT_EQ(conversation_of(request, "x-session-id"), hash_of("a"));
  EXPECT_EQ(conversation_of(request, "x-team"), std::nullopt);
}

TEST(ConversationOf, IgnoresAnEmptyHeader) {
  Request request;
  request.fields.add("x-session-id", "");
  EXPECT_EQ(conversation_of(request, "x-session-id"), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
