#include "sim/freezable_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Work that is due at one instant.
class Work : public FreezableTimer::Runner {
 public:
  explicit Work(Loop& loop) : loop_(loop), timer_(loop, *this) {}

  void advance() override {
    ++advanced;
    if (due > loop_.read_clock()) timer_.arm(due);
  }
  void postpone(Duration frozen_for) override {
    postponed += frozen_for;
    due += frozen_for;
  }
  FreezableTimer& timer() { return timer_; }

  int advanced = 0;
  Duration postponed{};
  Instant due{};

 private:
  Loop& loop_;
  FreezableTimer timer_;
};

class Freezing : public testing::Test {
 protected:
  bool turn_until(const std::function<bool()>& done) {
    return loop_.run_until(done, Clock::now() + 10s);
  }
  void turn_for(Duration duration) {
    loop_.run_until([] { return false; }, Clock::now() + duration);
  }
  Loop loop_;
  Work work_{loop_};
};

TEST_F(Freezing, AdvancesSoonAndAtADeadline) {
  work_.due = loop_.read_clock() + 5ms;
  work_.timer().wake_soon();

  ASSERT_TRUE(turn_until([&] { return work_.advanced == 2; }));

  EXPECT_GE(Clock::now(), work_.due);
}

TEST_F(Freezing, DoesNothingWhileFrozen) {
  work_.timer().arm(loop_.read_clock() + 1ms);

  work_.timer().freeze(true);
  work_.timer().wake_soon();
  turn_for(20ms);

  EXPECT_EQ(work_.advanced, 0);
}

TEST_F(Freezing, AWakeUpThatIsPendingWhenItFreezesIsSuppressed) {
  work_.timer().wake_soon();

  work_.timer().freeze(true);
  turn_for(5ms);

  EXPECT_EQ(work_.advanced, 0);
}

TEST_F(Freezing, ThawingPostponesByTheFrozenTimeAndAdvances) {
  work_.due = loop_.read_clock();
  const Instant before = work_.due;
  work_.timer().freeze(true);
  work_.timer().freeze(true);  // again: changes nothing
  turn_for(20ms);

  work_.timer().freeze(false);

  EXPECT_GE(work_.postponed, 20ms);
  EXPECT_EQ(work_.due, before + work_.postponed);
  EXPECT_TRUE(turn_until([&] { return work_.advanced == 1; }));
}

}  // namespace
}  // namespace evenkeel
