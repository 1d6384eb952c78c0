#include "evenkeel/pool/answer_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mebibyte = 1024 * 1024;

AnswerKey key_of(std::uint64_t number) {
  // All in one part, so that they share its memory.
  return {.first = {.low = number, .high = 0}, .second = {.low = number}, .body_bytes = 10};
}

class Answers : public testing::Test {
 protected:
  Answers() { cache_.set_capacity(16 * mebibyte); }

  void keep(std::uint64_t number, std::size_t size = 10) {
    auto answer = std::make_shared<KeptAnswer>();
    answer->body = std::string(size, 'x');
    answer->stored = now_;
    answer->fresh_until = now_ + 1h;
    answer->stale_until = now_ + 2h;
    cache_.keep(key_of(number), std::move(answer), cache_.age());
  }
  bool has(std::uint64_t number) { return cache_.find(key_of(number), now_) != nullptr; }

  AnswerCache cache_;
  Instant now_{1h};
};

TEST_F(Answers, AreFoundByTheirKeyAlone) {
  keep(1);
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  AnswerKey other = key_of(1);
  other.second.high = 1;
  EXPECT_EQ(cache_.find(other, now_), nullptr);
  other = key_of(1);
  other.body_bytes = 11;
  EXPECT_EQ(cache_.find(other, now_), nullptr);
}

TEST_F(Answers, ThatWereUsedLongestAgoMakeRoom) {
  const std::size_t size = mebibyte / 5;  // a part has 1 MiB
  for (std::uint64_t number = 1; number <= 4; ++number) keep(number, size);
  EXPECT_TRUE(has(1));
  keep(5, size);
  EXPECT_FALSE(has(2));
  for (const std::uint64_t number : {1, 3, 4, 5}) EXPECT_TRUE(has(number)) << number;
  EXPECT_LE(cache_.stats().bytes, mebibyte);
  EXPECT_EQ(cache_.stats().answers, 4u);
}

TEST_F(Answers, LargerThanA64thOfTheMemoryAreNotKept) {
  keep(1, mebibyte / 4);
  EXPECT_FALSE(has(1));
  keep(1, mebibyte / 4 - 1024);
  EXPECT_TRUE(has(1));
}

TEST_F(Answers, AreCountedOnceIfTheyReplaceOthers) {
  keep(1);
  const auto before = cache_.stats();
  keep(1);
  EXPECT_EQ(cache_.stats().bytes, before.bytes);
  EXPECT_EQ(cache_.stats().answers, 1u);
}

TEST_F(Answers, AreDroppedWhenTheirTimeIsOver) {
  keep(1);
  now_ += 90min;
  const KeptAnswerPtr stale = cache_.find(key_of(1), now_);
  ASSERT_NE(stale, nullptr);
  EXPECT_LT(stale->fresh_until, now_);
  now_ += 30min;
  EXPECT_FALSE(has(1));
  EXPECT_EQ(cache_.stats().bytes, 0u);
}

TEST_F(Answers, OfRequestsFromBeforeAPurgeAreNotKept) {
  keep(1);
  const std::uint64_t age = cache_.age();
  EXPECT_EQ(cache_.clear(), 1u);
  EXPECT_FALSE(has(1));
  auto late = std::make_shared<KeptAnswer>();
  late->stale_until = now_ + 1h;
  cache_.keep(key_of(2), late, age);
  EXPECT_FALSE(has(2));
  EXPECT_EQ(cache_.stats().bytes, 0u);
}

TEST_F(Answers, ThatAreBeingReadStayUntilTheyAreRead) {
  keep(1);
  const KeptAnswerPtr read = cache_.find(key_of(1), now_);
  cache_.clear();
  EXPECT_EQ(read->body, "xxxxxxxxxx");
}

}  // namespace
}  // namespace evenkeel
