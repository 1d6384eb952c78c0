#include "evenkeel/base/busy_poll.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

void sleep_shortly(BusyPoll& poll, unsigned times) {
  for (unsigned i = 0; i < times; ++i) poll.slept(BusyPoll::short_sleep);
}

TEST(BusyPoll, BeginsAfterShortSleepsInARow) {
  BusyPoll poll;
  sleep_shortly(poll, BusyPoll::min_short_sleeps - 1);
  EXPECT_FALSE(poll.is_due());
  poll.slept(BusyPoll::short_sleep + 1us);
  sleep_shortly(poll, BusyPoll::min_short_sleeps - 1);
  EXPECT_FALSE(poll.is_due()) << "not in a row";
  sleep_shortly(poll, 1);
  EXPECT_TRUE(poll.is_due());
  poll.polled(true);
  EXPECT_TRUE(poll.is_due()) << "while it succeeds";
}

TEST(BusyPoll, IsNeverDueWhileItIsNotAllowed) {
  BusyPoll poll;
  sleep_shortly(poll, BusyPoll::min_short_sleeps);
  poll.enable(false);
  EXPECT_FALSE(poll.is_due());
  sleep_shortly(poll, BusyPoll::max_short_sleeps);
  EXPECT_FALSE(poll.is_due());

  poll.enable(true);
  EXPECT_TRUE(poll.is_due());
}

TEST(BusyPoll, IsRarerAfterEachPollInVain) {
  BusyPoll poll;
  unsigned needed = BusyPoll::min_short_sleeps;
  for (int i = 0; i < 20; ++i) {
    sleep_shortly(poll, needed - 1);
    EXPECT_FALSE(poll.is_due());
    sleep_shortly(poll, 1);
    ASSERT_TRUE(poll.is_due());
    poll.polled(false);
    EXPECT_FALSE(poll.is_due());
    needed = std::min(2 * needed, BusyPoll::max_short_sleeps);
  }
}

TEST(BusyPoll, IsAsFrequentAsAtFirstAfterManySuccesses) {
  BusyPoll poll;
  sleep_shortly(poll, BusyPoll::min_short_sleeps);
  poll.polled(false);
  poll.polled(false);
  sleep_shortly(poll, 4 * BusyPoll::min_short_sleeps);
  for (unsigned i = 0; i < BusyPoll::successes_that_restore; ++i) poll.polled(true);
  poll.polled(false);
  sleep_shortly(poll, 2 * BusyPoll::min_short_sleeps);
  EXPECT_TRUE(poll.is_due());
}

}  // namespace
}  // namespace evenkeel
