#include "evenkeel/upstream/redis_answers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace evenkeel {
namespace {

using std::chrono::seconds;

const Instant now{std::chrono::hours(5)};
const auto wall = std::chrono::system_clock::from_time_t(1'800'000'000);

KeptAnswer some_answer() {
  return {.fields = {{"content-type", "application/json"}, {"x-empty", ""}},
          .body = std::string("{\"a\":1}\0\r\n", 10),
          .has_length = false,
          .stored = now - seconds(3),
          .fresh_until = now + seconds(60),
          .stale_until = now + seconds(600)};
}

std::string bytes_of(const KeptAnswer& answer) { return answer_to_bytes(answer, now, wall); }

TEST(AnswersInRedis, AreTheSameOnAnotherMachine) {
  const Instant there{std::chrono::hours(7)};
  const auto answer = parse_answer(bytes_of(some_answer()), there, wall + seconds(10));
  ASSERT_NE(answer, nullptr);
  ASSERT_EQ(answer->fields.size(), 2U);
  EXPECT_EQ(answer->fields[0].name + answer->fields[0].value, "content-typeapplication/json");
  EXPECT_EQ(answer->body, some_answer().body);
  EXPECT_FALSE(answer->has_length);
  EXPECT_EQ(answer->stored, there - seconds(13));
  EXPECT_EQ(answer->fresh_until, there + seconds(50));
  EXPECT_EQ(answer->stale_until, there + seconds(590));
}

TEST(AnswersInRedis, AreNotUsedOnceTheyAreTooOld) {
  EXPECT_EQ(parse_answer(bytes_of(some_answer()), now, wall + seconds(600)), nullptr);
}

TEST(AnswersInRedis, AreNoneIfAByteIsMissingOrTooMuch) {
  const std::string bytes = bytes_of(some_answer());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(parse_answer(bytes.substr(0, size), now, wall), nullptr) << size;
  EXPECT_EQ(parse_answer(bytes + "x", now, wall), nullptr);
}

TEST(AnswersInRedis, SurviveAnyDamage) {
  const std::string bytes = bytes_of(some_answer());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char damage : {'\0', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = damage;
      const auto answer = parse_answer(damaged, now, wall);
      EXPECT_TRUE(answer == nullptr || answer->stored <= now) << at;
    }
  }
}

TEST(AnswersInRedis, HaveNoFieldsThatEndALine) {
  KeptAnswer answer = some_answer();
  answer.fields.push_back({"x-a", "b\r\nset-cookie: c"});
  EXPECT_EQ(parse_answer(bytes_of(answer), now, wall), nullptr);
  for (const char* const name :
       {"transfer-encoding", "Content-Length", "set-cookie", "x-evenkeel-cache"}) {
    answer.fields.back() = {name, "1"};
    EXPECT_EQ(parse_answer(bytes_of(answer), now, wall), nullptr) << name;
  }
  answer.fields.back() = {"x a", "b"};
  EXPECT_EQ(parse_answer(bytes_of(answer), now, wall), nullptr);
}

}  // namespace
}  // namespace evenkeel
