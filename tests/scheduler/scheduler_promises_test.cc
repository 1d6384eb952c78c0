// What requests that wait may rely on.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <vector>

#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant noon{std::chrono::hours(12)};

/// A scheduler in front of one backend.
class OneBackend {
 public:
  explicit OneBackend(std::uint64_t kv_tokens)
      : scheduler({.slots = 1,
                   .config = {.slo = {.ttft = seconds(2), .tpot = milliseconds(100)},
                              .index_bytes = 1 << 20},
                   .patience = seconds(30)}) {
    scheduler.add_backend(0, {.identity = 1, .kv_tokens = kv_tokens});
    for (int i = 0; i < 5; ++i) {  // after so many it is not new any more
      const auto number = arrive({.prompt_tokens = 100});
      go_on(milliseconds(20));
      start(number);
      finish(number, 10);
    }
  }

  std::uint64_t arrive(Arrival arrival) {
    if (arrival.tokens_per_block == 0) arrival.tokens_per_block = 500;
    tickets_[++count_] = scheduler.arrive(arrival, now);
    numbers_[tickets_[count_]] = count_;
    place();
    return count_;
  }
  void go_on(Duration passed) {
    now += passed;
    place();
  }
  bool placed(std::uint64_t number) const { return placed_at_.contains(number); }
  void start(std::uint64_t number) {
    scheduler.first_token(tickets_[number], now);
    place();
  }
  void finish(std::uint64_t number, std::uint64_t output_tokens) {
    scheduler.finished(tickets_[number], {.output_tokens = output_tokens}, now);
    place();
  }

  Scheduler scheduler;
  Instant now = noon;

 private:
  void place() {
    for (const auto& placement : scheduler.place(now)) placed_at_[numbers_[placement.ticket]] = now;
  }

  std::map<std::uint64_t, Scheduler::Ticket> tickets_;
  std::map<Scheduler::Ticket, std::uint64_t> numbers_;
  std::map<std::uint64_t, Instant> placed_at_;
  std::uint64_t count_ = 0;
};

TEST(SchedulerPromises, APrefixThatRequestsShareTakesNoMemoryForEachOfThem) {
  OneBackend backend(300'000);
  std::vector<std::uint64_t> blocks(40);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = i + 1;

  // Their prompts are 1.2 million tokens, all but 20 of each cached from the second on.
  for (int i = 0; i < 60; ++i) {
    const auto number = backend.arrive({.prompt_tokens = 20'020, .prefix_blocks = blocks});
    for (int wait = 0; !backend.placed(number) && wait < 150; ++wait) {
      backend.go_on(milliseconds(10));
    }
    ASSERT_TRUE(backend.placed(number)) << i;
    backend.go_on(milliseconds(i == 0 ? 4000 : 30));
    backend.start(number);
  }
}

TEST(SchedulerPromises, ShortPromptsDoNotKeepOneAwayThatFillsTheMemory) {
  OneBackend backend(32'000);
  std::vector<std::uint64_t> running;
  std::uint64_t large = 0;

  // Four short ones a second, each of which runs for a second.
  for (int i = 0; i < 80; ++i) {
    running.push_back(backend.arrive({.prompt_tokens = 2000}));
    if (i == 10) large = backend.arrive({.prompt_tokens = 30'000});
    for (int tick = 0; tick < 10; ++tick) backend.go_on(milliseconds(25));
    if (large != 0 && backend.placed(large)) break;
    if (backend.placed(running.back())) backend.start(running.back());
    if (i >= 4 && backend.placed(running[running.size() - 4])) {
      backend.finish(running[running.size() - 4], 30);
    }
  }

  EXPECT_TRUE(backend.placed(large)) << "after 17 seconds";
}

TEST(SchedulerPromises, ARequestRisesByOneClassWithEachThirdOfItsPatience) {
  OneBackend backend(0);
  const auto placed_before_an_urgent_one = [&](Duration age) {
    const auto running = backend.arrive({.prompt_tokens = 300'000});  // not overdue meanwhile
    const auto batch = backend.arrive({.prompt_tokens = 9000, .priority = Priority::batch});
    backend.now += age;
    const auto urgent = backend.arrive({.prompt_tokens = 9000, .priority = Priority::interactive});
    EXPECT_FALSE(backend.placed(batch));
    backend.start(running);
    const bool first = backend.placed(batch);
    EXPECT_NE(backend.placed(urgent), first);
    backend.finish(running, 10);
    for (const auto number : first ? std::vector{batch, urgent} : std::vector{urgent, batch}) {
      backend.go_on(seconds(2));
      backend.start(number);
      backend.finish(number, 10);
    }
    return first;
  };

  EXPECT_FALSE(placed_before_an_urgent_one(seconds(19)));
  EXPECT_TRUE(placed_before_an_urgent_one(seconds(21)));
}

}  // namespace
}  // namespace evenkeel::testing
