// Requests for several outputs at once: OpenAI's `n`.
#include <gtest/gtest.h>

#include <chrono>

#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t choices = 4;
constexpr Duration step = milliseconds(40);

class SchedulerChoices : public testing::Test {
 protected:
  SchedulerChoices() { scheduler_.add_backend(0, {.identity = 1}); }

  Scheduler::Ticket start(bool streams, std::uint32_t of_choices) {
    const auto ticket =
        scheduler_.arrive({.prompt_tokens = 10, .choices = of_choices, .streams = streams}, now_);
    EXPECT_EQ(scheduler_.place(now_).size(), 1u);
    return ticket;
  }
  /// Of a prompt of one token, which is little more than a step.
  double learned_step() const { return seconds_of(scheduler_.predicted_prefill(0, 1, 0)); }

  Scheduler scheduler_{{.slots = 1, .config = {.index_bytes = 1 << 20}}};
  Instant now_{hours(12)};
};

TEST_F(SchedulerChoices, AreGeneratedSideBySideInAWholeResponse) {
  for (int i = 0; i < 300; ++i) {
    const auto ticket = start(false, choices);
    const int steps = 50 + i % 7 * 10;
    now_ += steps * step;
    scheduler_.finished(ticket, {.output_tokens = static_cast<std::uint64_t>(steps) * choices},
                        now_);
    now_ += seconds(1);
  }

  EXPECT_NEAR(learned_step(), seconds_of(step), 0.006);
}

TEST_F(SchedulerChoices, DoNotTellAStepByTheGapsOfTheirStream) {
  for (int i = 0; i < 50; ++i) {
    const auto one = start(true, 1);
    now_ += step;
    scheduler_.first_token(one, now_);
    for (std::uint32_t steps = 1; steps <= 40; ++steps) {
      now_ += step;
      scheduler_.token(one, steps + 1, step, now_);
    }
    scheduler_.finished(one, {.output_tokens = 41}, now_);
    now_ += seconds(1);
  }
  const double before = learned_step();

  for (int i = 0; i < 50; ++i) {
    const auto ticket = start(true, choices);
    now_ += step;
    scheduler_.first_token(ticket, now_);
    for (std::uint32_t steps = 1; steps <= 40; ++steps) {
      now_ += step;
      scheduler_.token(ticket, (steps + 1) * choices, step / choices, now_);
    }
    scheduler_.finished(ticket, {.output_tokens = 41 * choices}, now_);
    now_ += seconds(1);
  }

  EXPECT_NEAR(learned_step(), before, 0.005);
}

}  // namespace
}  // namespace evenkeel
