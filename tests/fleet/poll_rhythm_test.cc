#include "fleet/poll_rhythm.h"

#include <gtest/gtest.h>

#include <chrono>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(PollRhythm, BeginsSomewhereInTheFirstInterval) {
  Duration least = 1h;
  Duration most = 0s;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Duration phase = PollRhythm(1s, seed).phase();
    least = std::min(least, phase);
    most = std::max(most, phase);
  }

  EXPECT_GE(least, 0s);
  EXPECT_LT(least, 100ms);
  EXPECT_LT(most, 1s);
  EXPECT_GT(most, 900ms);
}

TEST(PollRhythm, KeepsItsIntervalWhereAnswersAreQuick) {
  PollRhythm rhythm(250ms, 1);
  for (int i = 0; i < 10; ++i) rhythm.answered(2ms);

  EXPECT_EQ(rhythm.interval(), 250ms);
  EXPECT_GE(rhythm.pause(), 237ms);
  EXPECT_LE(rhythm.pause(), 263ms);
}

TEST(PollRhythm, StretchesWhereAnswersAreSlowAndComesBack) {
  PollRhythm rhythm(250ms, 1);
  for (int i = 0; i < 3; ++i) rhythm.answered(30ms);
  EXPECT_NEAR(seconds_of(rhythm.interval()), 1.0, 0.001) << "3 % of its server's time";

  for (int i = 0; i < 3; ++i) rhythm.answered(5s);
  EXPECT_EQ(rhythm.interval(), PollRhythm::longest_interval);

  rhythm.answered(1ms);
  EXPECT_EQ(rhythm.interval(), 250ms);
}

TEST(PollRhythm, TakesOneSlowAnswerForAServerThatWasBusy) {
  PollRhythm rhythm(250ms, 1);
  for (int i = 0; i < 10; ++i) rhythm.answered(i % 3 == 0 ? 2ms : 900ms);

  EXPECT_EQ(rhythm.interval(), 250ms);
}

TEST(PollRhythm, NeverAsksMoreOftenThanItWasTold) {
  PollRhythm rhythm(60s, 1);
  for (int i = 0; i < 3; ++i) rhythm.answered(10s);

  EXPECT_EQ(rhythm.interval(), 60s);
}

TEST(PollRhythm, AsksLessAndLessOftenWhereNobodyAnswers) {
  PollRhythm rhythm(250ms, 1);
  Duration before = 0s;
  for (int i = 0; i < 4; ++i) {
    rhythm.failed();
    const Duration pause = rhythm.pause();
    EXPECT_GT(pause, before);
    before = pause;
  }
  for (int i = 0; i < 100; ++i) rhythm.failed();
  EXPECT_LE(rhythm.pause(), PollRhythm::longest_retry * 1.06);

  rhythm.answered(1ms);
  EXPECT_LE(rhythm.pause(), 263ms);
}

TEST(PollRhythm, RemembersForSomeIntervals) {
  PollRhythm rhythm(250ms, 1);
  EXPECT_EQ(rhythm.memory(), PollRhythm::least_memory);

  for (int i = 0; i < 3; ++i) rhythm.answered(60ms);
  EXPECT_EQ(rhythm.memory(), rhythm.interval() * 3);
}

}  // namespace
}  // namespace evenkeel
