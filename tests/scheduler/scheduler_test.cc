#include "evenkeel/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ticket = Scheduler::Ticket;

constexpr Instant noon{std::chrono::hours(12)};

SchedulerOptions some_options() {
  return {
      .slots = 8,
      .config = {.slo = {.ttft = seconds(2), .tpot = milliseconds(100)}, .index_bytes = 1 << 20}};
}

/// A scheduler with backends that are all alike, and what it has placed.
class Placing {
 public:
  explicit Placing(std::uint32_t backends, const SchedulerOptions& options = some_options())
      : scheduler(options) {
    for (std::uint32_t slot = 0; slot < backends; ++slot) {
      scheduler.add_backend(slot, {.identity = slot + 100, .kv_tokens = 1'000'000});
    }
  }

  /// Returns its number.
  std::uint64_t arrive(Arrival arrival) {
    if (arrival.tokens_per_block == 0) arrival.tokens_per_block = 512;
    tickets[++count_] = scheduler.arrive(arrival, now);
    numbers_[tickets[count_]] = count_;
    return count_;
  }
  void place() {
    for (const auto& placement : scheduler.place(now)) {
      const std::uint64_t number = numbers_[placement.ticket];
      order.push_back(number);
      backend_of[number] = placement.backend;
      if (placement.backend == Scheduler::no_backend) retry_after[number] = placement.retry_after;
    }
  }
  std::uint64_t arrive_and_place(const Arrival& arrival) {
    const auto number = arrive(arrival);
    place();
    return number;
  }
  bool placed(std::uint64_t number) const { return backend_of.contains(number); }
  /// The backend computes the prompt and the whole output.
  void serve(std::uint64_t number, std::uint32_t output = 10) {
    scheduler.first_token(tickets[number], now);
    scheduler.finished(tickets[number], {.output_tokens = output}, now);
  }

  Scheduler scheduler;
  Instant now = noon;
  std::map<std::uint64_t, Ticket> tickets;
  std::map<std::uint64_t, std::uint32_t> backend_of;
  std::vector<std::uint64_t> order;
  std::map<std::uint64_t, Duration> retry_after;  // of refused ones

 private:
  std::map<Scheduler::Ticket, std::uint64_t> numbers_;
  std::uint64_t count_ = 0;
};

/// Serves enough requests on every backend that none is new.
void warm_up(Placing& placing, std::uint32_t backends) {
  for (std::uint32_t i = 0; i < 10 * backends; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 100});
    ASSERT_TRUE(placing.placed(number));
    placing.now += milliseconds(30);
    placing.serve(number);
    placing.now += seconds(1);
  }
  placing.order.clear();
}

TEST(Scheduler, PlacesARequestOnAnIdleBackendAtOnce) {
  Placing placing(2);

  const auto number = placing.arrive_and_place({.prompt_tokens = 5000});

  EXPECT_TRUE(placing.placed(number));
  EXPECT_EQ(placing.scheduler.waiting(), 0u);
  EXPECT_EQ(placing.scheduler.next_pass(placing.now), never);
}

TEST(Scheduler, SpreadsRequestsWithoutAPrefixThatComeOneByOne) {
  Placing placing(3);
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 90; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 20});
    ASSERT_TRUE(placing.placed(number));
    ++counts[placing.backend_of[number]];
    placing.now += milliseconds(3);
    placing.serve(number);
    placing.now += milliseconds(100);
  }
  for (std::uint32_t slot = 0; slot < 3; ++slot) EXPECT_GT(counts[slot], 10) << slot;
}

/// Serves requests with this prompt one by one, far faster than an unknown engine is taken to be.
std::map<std::uint32_t, int> serve_one_by_one(Placing& placing, const Arrival& arrival, int count) {
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < count; ++i) {
    const auto number = placing.arrive_and_place(arrival);
    EXPECT_TRUE(placing.placed(number));
    ++counts[placing.backend_of[number]];
    placing.now += milliseconds(3);
    placing.serve(number);
    placing.now += milliseconds(100);
  }
  return counts;
}

TEST(Scheduler, LeavesASessionWhereItIsWhileThatCostsLittleMore) {
  Placing placing(3);
  warm_up(placing, 3);

  const auto counts = serve_one_by_one(placing, {.prompt_tokens = 100, .preferred = 2}, 20);

  EXPECT_EQ(counts, (std::map<std::uint32_t, int>{{2, 20}}));
}

TEST(Scheduler, MovesASessionFromABackendThatIsBusy) {
  Placing placing(3);
  warm_up(placing, 3);
  const auto busy = placing.arrive_and_place({.prompt_tokens = 50'000, .pinned = 2});
  ASSERT_TRUE(placing.placed(busy));

  const auto number = placing.arrive_and_place({.prompt_tokens = 100, .preferred = 2});

  ASSERT_TRUE(placing.placed(number));
  EXPECT_NE(placing.backend_of[number], 2u);
}

TEST(Scheduler, TriesEveryNewBackendThoughOneIsFastAndHasThePrefix) {
  Placing placing(3);
  const std::vector<std::uint64_t> blocks = {1, 2};

  auto counts = serve_one_by_one(placing, {.prompt_tokens = 1100, .prefix_blocks = blocks}, 60);

  for (std::uint32_t slot = 0; slot < 3; ++slot) EXPECT_GE(counts[slot], 5) << slot;
}

TEST(Scheduler, DoesNotTryANewBackendWithAPromptThatIsCachedElsewhere) {
  Placing placing(1);
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 1; i <= 60; ++i) blocks.push_back(i);
  const Arrival arrival = {.prompt_tokens = 60 * 512 + 10, .prefix_blocks = blocks};
  serve_one_by_one(placing, arrival, 30);
  placing.scheduler.add_backend(1, {.identity = 101, .kv_tokens = 1'000'000});

  auto counts = serve_one_by_one(placing, arrival, 20);

  EXPECT_EQ(counts[1], 0);
}

TEST(Scheduler, TriesANewBackendWithOneRequestAtATime) {
  Placing placing(1);
  warm_up(placing, 1);
  placing.scheduler.add_backend(1, {.identity = 101, .kv_tokens = 1'000'000});

  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 4; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 20});
    ++counts[placing.backend_of[number]];
    if (placing.backend_of[number] == 0) placing.serve(number);
    placing.now += milliseconds(10);
  }

  EXPECT_EQ(counts[1], 1);
}

TEST(Scheduler, HoldsRequestsUntilABackendCanStartThem) {
  Placing placing(2);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 6; ++i) numbers.push_back(placing.arrive({.prompt_tokens = 20'000}));

  placing.place();

  EXPECT_EQ(placing.order.size(), 2u) << "one prompt each: it takes longer than two steps";
  EXPECT_NE(placing.backend_of[placing.order[0]], placing.backend_of[placing.order[1]]);
  EXPECT_EQ(placing.scheduler.waiting(), 4u);
  EXPECT_LE(placing.scheduler.next_pass(placing.now), placing.now + milliseconds(20));

  placing.now += seconds(2);
  placing.scheduler.first_token(placing.tickets[placing.order[0]], placing.now);
  placing.place();
  EXPECT_EQ(placing.order.size(), 3u);
}

TEST(Scheduler, PlacesNothingWithoutAnAvailableBackend) {
  Placing placing(1);
  placing.scheduler.set_state(0, SlotState::out);

  const auto number = placing.arrive_and_place({.prompt_tokens = 100});
  EXPECT_FALSE(placing.placed(number));

  placing.scheduler.set_state(0, SlotState::open);
  placing.place();
  EXPECT_TRUE(placing.placed(number));
}

TEST(Scheduler, KeepsRequestsOnTheBackendsThatTheyMayUse) {
  Placing placing(4);
  SlotSet allowed;
  allowed.add(1);
  allowed.add(2);
  SlotSet only;
  only.add(0);
  constexpr std::uint32_t excluded[] = {1};

  for (int i = 0; i < 8; ++i) {
    const auto other =
        placing.arrive_and_place({.prompt_tokens = 100, .allowed = &allowed, .excluded = excluded});
    EXPECT_EQ(placing.backend_of.at(other), 2u);
    const auto number = placing.arrive_and_place({.prompt_tokens = 100, .allowed = &allowed});
    EXPECT_TRUE(allowed.contains(placing.backend_of.at(number)));
    const auto pinned = placing.arrive_and_place({.prompt_tokens = 100, .pinned = 3});
    EXPECT_EQ(placing.backend_of.at(pinned), 3u);
    const auto kept = placing.arrive_and_place({.prompt_tokens = 100, .only = &only});
    EXPECT_EQ(placing.backend_of.at(kept), 0u);
    placing.now += seconds(1);
    for (const auto each : {number, other, pinned, kept}) placing.serve(each);
  }
}

TEST(Scheduler, ServesOneSubsetWhileManyWaitForAnother) {
  Placing placing(2);
  SlotSet busy;
  busy.add(0);
  SlotSet free;
  free.add(1);
  for (int i = 0; i < 200; ++i) placing.arrive({.prompt_tokens = 5'000, .allowed = &busy});
  placing.place();
  placing.place();

  const auto number = placing.arrive_and_place({.prompt_tokens = 50'000, .allowed = &free});

  EXPECT_TRUE(placing.placed(number));
  EXPECT_EQ(placing.backend_of[number], 1u);
}

TEST(Scheduler, UsesAvoidedBackendsOnlyForWhatHasNoOther) {
  Placing placing(3);
  placing.scheduler.set_state(0, SlotState::avoided);
  SlotSet only_avoided;
  only_avoided.add(0);
  for (int i = 0; i < 6; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 100});
    EXPECT_NE(placing.backend_of.at(number), 0u);
    placing.now += milliseconds(50);
    placing.serve(number);
  }
  const auto number = placing.arrive_and_place({.prompt_tokens = 100, .allowed = &only_avoided});
  EXPECT_EQ(placing.backend_of.at(number), 0u);
  placing.now += milliseconds(50);
  placing.serve(number);

  placing.scheduler.set_state(1, SlotState::full);
  placing.scheduler.set_state(2, SlotState::full);
  const auto waits = placing.arrive_and_place({.prompt_tokens = 100});
  EXPECT_FALSE(placing.placed(waits)) << "full backends are not avoided ones";
}

TEST(Scheduler, AsksForASlotAndTakesTheNextBackendIfThereIsNone) {
  class Slots : public Scheduler::Capacity {
   public:
    bool try_acquire(std::uint32_t slot) override {
      asked.push_back(slot);
      return slot == 2;
    }
    std::vector<std::uint32_t> asked;
  };
  Placing placing(3);
  Slots slots;
  placing.arrive({.prompt_tokens = 100});

  const auto placements = placing.scheduler.place(placing.now, &slots);

  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].backend, 2u);
  EXPECT_EQ(slots.asked.back(), 2u);
}

TEST(Scheduler, GivesTheSlotOfABackendThatLeftToAnother) {
  Placing placing(2);
  const auto number = placing.arrive_and_place({.prompt_tokens = 100, .pinned = 1});
  placing.serve(number);
  placing.scheduler.remove_backend(1);
  placing.scheduler.set_state(1, SlotState::open);

  const auto waits = placing.arrive_and_place({.prompt_tokens = 100, .pinned = 1});
  EXPECT_FALSE(placing.placed(waits));

  placing.scheduler.add_backend(1, {.identity = 7});
  placing.place();
  EXPECT_EQ(placing.backend_of.at(waits), 1u);
}

TEST(Scheduler, SendsAPromptToTheBackendThatHasItsPrefix) {
  Placing placing(4);
  warm_up(placing, 4);
  std::vector<std::uint64_t> prompt;
  for (std::uint64_t i = 1; i <= 30; ++i) prompt.push_back(i);
  const Arrival arrival = {.prompt_tokens = 30 * 512, .prefix_blocks = prompt};
  const auto first = placing.arrive_and_place(arrival);
  placing.now += seconds(1);
  placing.serve(first);

  for (int i = 0; i < 5; ++i) {
    placing.now += seconds(1);
    const auto again = placing.arrive_and_place(arrival);
    EXPECT_EQ(placing.backend_of[again], placing.backend_of[first]);
    placing.now += milliseconds(50);
    placing.serve(again);
  }
}

TEST(Scheduler, StartsALongPromptWhereItCanInsteadOfWaitingForAnEqualBackend) {
  for (std::uint64_t block = 1; block <= 8; ++block) {
    Placing placing(2);
    warm_up(placing, 2);
    placing.arrive_and_place({.prompt_tokens = 1500, .pinned = 0});

    const std::uint64_t blocks[] = {block};
    const auto number =
        placing.arrive_and_place({.prompt_tokens = 60'000, .prefix_blocks = blocks});

    ASSERT_TRUE(placing.placed(number)) << block;
    EXPECT_EQ(placing.backend_of[number], 1u) << block;
  }
}

TEST(Scheduler, ForgetsThePrefixesOfAnEngineThatRestarted) {
  Placing placing(2);
  warm_up(placing, 2);
  const std::vector<std::uint64_t> prompt(40, 7);
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 40; ++i) blocks.push_back(1000 + i);
  const Arrival arrival = {.prompt_tokens = 40 * 512, .prefix_blocks = blocks};
  const auto first = placing.arrive_and_place(arrival);
  const std::uint32_t holder = placing.backend_of[first];
  placing.now += seconds(1);
  placing.serve(first);
  // The other backend is busy with streams, the holder is idle: only the cache speaks for it.
  placing.scheduler.set_state(holder, SlotState::out);
  const auto second = placing.arrive_and_place(arrival);
  placing.now += seconds(1);
  placing.serve(second);
  placing.scheduler.set_state(holder, SlotState::open);

  placing.scheduler.backend_cleared(holder);
  placing.now += seconds(1);
  const auto third = placing.arrive_and_place(arrival);

  EXPECT_NE(placing.backend_of[third], holder);
}

TEST(Scheduler, PlacesShortPromptsBeforeLongOnesButNotForever) {
  Placing placing(1);
  const auto running = placing.arrive_and_place({.prompt_tokens = 20'000});
  const auto long_one = placing.arrive({.prompt_tokens = 15'000});
  placing.now += milliseconds(10);
  const auto short_one = placing.arrive({.prompt_tokens = 100});
  placing.now += seconds(2);
  placing.serve(running);
  placing.place();
  ASSERT_TRUE(placing.placed(short_one));
  EXPECT_FALSE(placing.placed(long_one));

  placing.now += seconds(30);  // as old as this it comes before any short one
  const auto late = placing.arrive({.prompt_tokens = 100});
  placing.serve(short_one);
  placing.place();

  EXPECT_TRUE(placing.placed(long_one));
  EXPECT_FALSE(placing.placed(late));
}

TEST(Scheduler, PlacesUrgentRequestsFirst) {
  Placing placing(1);
  const auto running = placing.arrive_and_place({.prompt_tokens = 20'000});
  placing.arrive({.prompt_tokens = 9000, .priority = Priority::batch});
  placing.arrive({.prompt_tokens = 9000, .priority = Priority::standard});
  const auto urgent = placing.arrive({.prompt_tokens = 9000, .priority = Priority::interactive});
  placing.now += seconds(2);
  placing.serve(running);

  placing.place();

  EXPECT_EQ(placing.order.back(), urgent);
}

/// What each of two tenants had when both always waited.
std::map<std::uint64_t, double> served_tokens(double weight_of_second) {
  Placing placing(1);
  std::map<std::uint64_t, std::uint64_t> tenant_of;
  std::map<std::uint64_t, double> tokens;
  const auto add = [&](std::uint64_t tenant) {
    const std::uint32_t prompt = tenant == 1 ? 8000 : 4000;
    const auto number = placing.arrive({.prompt_tokens = prompt,
                                        .tenant = tenant,
                                        .tenant_weight = tenant == 2 ? weight_of_second : 1});
    tenant_of[number] = tenant;
  };
  for (int i = 0; i < 40; ++i) add(1);  // floods
  for (int i = 0; i < 4; ++i) add(2);
  for (std::size_t done = 0; done < 300; ++done) {
    placing.place();
    const auto number = placing.order.at(done);
    const std::uint64_t tenant = tenant_of[number];
    tokens[tenant] += tenant == 1 ? 8000 : 4000;
    placing.now += milliseconds(tenant == 1 ? 400 : 200);
    placing.serve(number);
    add(tenant);
  }
  return tokens;
}

TEST(Scheduler, SharesFairlyBetweenTenantsThatBothWait) {
  const auto tokens = served_tokens(1);

  const double sum = tokens.at(1) + tokens.at(2);
  const double jain = sum * sum / (2 * (tokens.at(1) * tokens.at(1) + tokens.at(2) * tokens.at(2)));
  EXPECT_GE(jain, 0.95);
}

/// How often each of two tenants was served that always wait with equal prompts: one has outputs of
/// 10 tokens, the other of 4000.
std::map<std::uint64_t, int> served_with_outputs(std::uint32_t max_tokens_of_second) {
  Placing placing(1);
  std::map<std::uint64_t, std::uint64_t> tenant_of;
  std::map<std::uint64_t, int> served;
  const auto add = [&](std::uint64_t tenant) {
    const auto number = placing.arrive({.prompt_tokens = 4000,
                                        .max_tokens = tenant == 1 ? 10 : max_tokens_of_second,
                                        .tenant = tenant});
    tenant_of[number] = tenant;
  };
  for (std::uint64_t i = 0; i < 8; ++i) add(1 + i % 2);
  for (std::size_t done = 0; done < 300; ++done) {
    placing.place();
    const auto number = placing.order.at(done);
    const std::uint64_t tenant = tenant_of[number];
    ++served[tenant];
    placing.now += milliseconds(400);
    placing.serve(number, tenant == 1 ? 10 : 4000);
    add(tenant);
  }
  return served;
}

TEST(Scheduler, ChargesATenantForItsOutputs) {
  const auto served = served_with_outputs(4000);

  EXPECT_GT(served.at(1), 3 * served.at(2));
  EXPECT_GT(served.at(2), 10);
}

TEST(Scheduler, SettlesWhatAnOutputWasChargedWhenItEnds) {
  const auto served = served_with_outputs(10);  // outputs of both are expected to be alike

  EXPECT_GT(served.at(1), 3 * served.at(2));
  EXPECT_GT(served.at(2), 10);
}

TEST(Scheduler, PromptsThatFitNoCacheDoNotKeepOthersFromBeingLookedAt) {
  Placing placing(1);
  warm_up(placing, 1);
  const auto running = placing.arrive_and_place({.prompt_tokens = 900'000});
  placing.now += seconds(100);
  placing.scheduler.first_token(placing.tickets[running], placing.now);
  for (int i = 0; i < 100; ++i) {
    placing.arrive({.prompt_tokens = 200'000, .priority = Priority::interactive});
  }
  const auto fits = placing.arrive({.prompt_tokens = 100});

  for (int pass = 0; pass < 3; ++pass) {
    placing.place();
    placing.now += milliseconds(20);
  }

  EXPECT_TRUE(placing.placed(fits));
  EXPECT_EQ(placing.scheduler.waiting(), 100u);
}

TEST(Scheduler, GivesATenantThreeTimesAsMuchWithThreeTimesTheWeight) {
  const auto tokens = served_tokens(3);

  EXPECT_NEAR(tokens.at(2) / tokens.at(1), 3, 0.6);
}

TEST(Scheduler, ATenantThatWasAwayHasSavedNothingUp) {
  Placing placing(1);
  std::vector<std::uint64_t> first_tenant;
  for (int i = 0; i < 60; ++i) {
    first_tenant.push_back(placing.arrive({.prompt_tokens = 8000, .tenant = 1}));
  }
  for (int i = 0; i < 40; ++i) {  // it is served alone
    placing.place();
    placing.now += milliseconds(400);
    placing.serve(placing.order.back());
  }
  for (int i = 0; i < 40; ++i) placing.arrive({.prompt_tokens = 8000, .tenant = 2});

  std::size_t of_first = 0;
  for (int i = 0; i < 20; ++i) {
    placing.place();
    const auto number = placing.order.back();
    of_first += std::count(first_tenant.begin(), first_tenant.end(), number) > 0 ? 1u : 0u;
    placing.now += milliseconds(400);
    placing.serve(number);
  }

  EXPECT_GE(of_first, 7u);
}

TEST(Scheduler, RefusesWhatWouldBeTooLateAndSaysWhenToComeBack) {
  SchedulerOptions options = some_options();
  options.config.shed = 1;
  Placing placing(1, options);
  placing.arrive_and_place({.prompt_tokens = 60'000});
  const auto waiting = placing.arrive({.prompt_tokens = 1000});
  const auto batch = placing.arrive({.prompt_tokens = 1000, .priority = Priority::batch});
  const std::size_t before = placing.scheduler.waiting();

  placing.now += milliseconds(2500);
  placing.place();

  ASSERT_TRUE(placing.placed(waiting));
  EXPECT_EQ(placing.backend_of[waiting], Scheduler::no_backend);
  EXPECT_FALSE(placing.placed(batch)) << "it has four times the time";
  EXPECT_GT(placing.retry_after.at(waiting), milliseconds(500));
  EXPECT_EQ(placing.scheduler.waiting(), before - 1);
}

TEST(Scheduler, CountsWhatARequestHasWaitedBeforeItArrived) {
  SchedulerOptions options = some_options();
  options.config.shed = 1;
  Placing placing(1, options);
  placing.arrive_and_place({.prompt_tokens = 60'000});
  const auto older =
      placing.arrive({.prompt_tokens = 1000, .waiting_since = placing.now - milliseconds(2000)});
  const auto newer = placing.arrive({.prompt_tokens = 1000});

  placing.now += milliseconds(500);
  placing.place();

  EXPECT_TRUE(placing.placed(older)) << "refused: it is too late for it";
  EXPECT_FALSE(placing.placed(newer));
}

TEST(Scheduler, SaysWhenTheBackendsThatARefusedRequestMayUseAreFree) {
  SchedulerOptions options = some_options();
  options.config.shed = 1;
  Placing placing(3, options);
  SlotSet first;
  SlotSet others;
  first.add(0);
  others.add(1);
  others.add(2);
  placing.arrive_and_place({.prompt_tokens = 60'000, .allowed = &first});
  for (const std::uint32_t slot : {1u, 2u}) {
    placing.arrive_and_place({.prompt_tokens = 30'000, .pinned = slot});
  }
  const auto for_first = placing.arrive({.prompt_tokens = 1000, .allowed = &first});
  const auto for_others = placing.arrive({.prompt_tokens = 1000, .allowed = &others});
  const auto for_any = placing.arrive({.prompt_tokens = 1000});
  const std::uint32_t been_there[] = {0};
  const auto retry = placing.arrive({.prompt_tokens = 1000, .excluded = been_there});
  const auto pinned = placing.arrive({.prompt_tokens = 1000, .pinned = 2});
  placing.now += milliseconds(2500);
  const auto wait = [&placing](std::uint32_t slot) {
    return seconds_of(placing.scheduler.forecast(slot, placing.now).wait);
  };
  ASSERT_GT(wait(0), wait(1) + 3);
  const double of_all = (wait(0) + wait(1) + wait(2)) / 3;

  placing.place();

  const auto told = [&placing](std::uint64_t number) {
    return seconds_of(placing.retry_after.at(number));
  };
  constexpr double prompts = 0.5;  // five of them, at most
  EXPECT_NEAR(told(for_first), wait(0) + prompts / 2, prompts / 2);
  EXPECT_NEAR(told(for_others), wait(1) + prompts / 2, prompts / 2);
  EXPECT_NEAR(told(retry), wait(1) + prompts / 2, prompts / 2);
  EXPECT_NEAR(told(pinned), wait(2) + prompts / 2, prompts / 2);
  EXPECT_NEAR(told(for_any), of_all + prompts / 2, prompts / 2);
  EXPECT_GT(told(pinned), told(retry)) << "it waits there alone";
}

TEST(Scheduler, HoldsAPromptThatWouldBreakTheStreamsOfEveryBackend) {
  Placing placing(1);
  warm_up(placing, 1);  // with outputs of ten tokens: a stream has less than a second of slack
  for (int i = 0; i < 10; ++i) {
    const auto stream = placing.arrive_and_place({.prompt_tokens = 100});
    ASSERT_TRUE(placing.placed(stream));
    placing.now += milliseconds(25);
    placing.scheduler.first_token(placing.tickets[stream], placing.now);
  }

  const auto disturbing = placing.arrive_and_place({.prompt_tokens = 8000});
  EXPECT_FALSE(placing.placed(disturbing));

  placing.now += milliseconds(1100);  // it is held for a second at most
  placing.place();
  EXPECT_TRUE(placing.placed(disturbing));
}

TEST(Scheduler, ABackendThatStallsLosesItsShareWithinThreeSeconds) {
  Placing placing(2);
  warm_up(placing, 2);
  std::vector<std::uint64_t> busy[2];
  int to_stalled = 0;
  int to_other = 0;

  for (int tick = 0; tick < 30; ++tick) {  // 3 s; backend 0 shows no token any more
    const auto number = placing.arrive_and_place({.prompt_tokens = 1500});
    placing.now += milliseconds(100);
    if (!placing.placed(number)) continue;
    if (placing.backend_of[number] == 0) {
      ++to_stalled;
    } else {
      ++to_other;
      placing.serve(number);
    }
  }

  EXPECT_LE(to_stalled, 3);
  EXPECT_GE(to_other, 20);
}

TEST(Scheduler, TellsHowFarItsSignalsCarry) {
  Placing placing(1);
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::cold);
  const std::vector<std::uint64_t> blocks = {1, 2, 3};

  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 1536, .prefix_blocks = blocks});
    placing.now += milliseconds(100);
    placing.serve(number);
  }
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::assumed_hits);

  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 1536, .prefix_blocks = blocks});
    placing.now += milliseconds(100);
    placing.scheduler.first_token(placing.tickets[number], placing.now);
    placing.scheduler.finished(placing.tickets[number], {.output_tokens = 5, .cached_tokens = 1024},
                               placing.now);
  }
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::confirmed);

  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place(
        {.prompt_tokens = 1536, .prefix_blocks = blocks, .streams = false});
    placing.now += seconds(1);
    placing.scheduler.finished(placing.tickets[number], {.output_tokens = 5}, placing.now);
  }
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::unseen_first_tokens);

  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 1536});
    placing.now += seconds(1);
    placing.serve(number);
  }
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::unknown_prompts);

  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 1536, .prefix_blocks = blocks});
    placing.now += seconds(1);
    placing.serve(number);
  }
  ASSERT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::assumed_hits);
  for (int i = 0; i < 80; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 50});
    placing.now += seconds(1);
    placing.serve(number);
  }
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).confidence, Confidence::assumed_hits)
      << "short prompts have no blocks";
  EXPECT_STREQ(to_string(Confidence::unknown_prompts), "unknown_prompts");
}

TEST(Scheduler, TakesAWholeResponseForTheLongestThatItsPromptCanHaveTaken) {
  Placing placing(1);
  for (int i = 0; i < 200; ++i) {  // not streamed, and its tokens are not counted
    const auto number = placing.arrive_and_place({.prompt_tokens = 1000, .streams = false});
    placing.now += milliseconds(4);
    placing.scheduler.finished(placing.tickets[number], {}, placing.now);
    placing.now += milliseconds(1);
  }

  EXPECT_LT(placing.scheduler.predicted_prefill(0, 1000, 0), milliseconds(6));
}

TEST(Scheduler, AStreamWithoutASeenFirstTokenDoesNotBlockItsBackend) {
  Placing placing(1);
  warm_up(placing, 1);
  const auto silent = placing.arrive_and_place({.prompt_tokens = 100});
  ASSERT_TRUE(placing.placed(silent));
  std::uint64_t other = 0;
  int served = 0;
  for (int i = 0; i < 40; ++i) {
    if (other == 0) other = placing.arrive_and_place({.prompt_tokens = 100});
    placing.now += milliseconds(100);
    placing.place();
    if (!placing.placed(other)) continue;
    placing.serve(std::exchange(other, 0));  // the engine shows the first tokens of all others
    ++served;
  }

  EXPECT_GT(served, 25) << "after the one that took the place of a probe";
  EXPECT_LT(placing.scheduler.forecast(0, placing.now).wait, milliseconds(300));
}

TEST(Scheduler, SendsOneProbeToABackendThatIsStuck) {
  Placing placing(1);
  warm_up(placing, 1);
  placing.arrive_and_place({.prompt_tokens = 100});
  placing.now += seconds(5);
  const auto probe = placing.arrive_and_place({.prompt_tokens = 100});
  EXPECT_TRUE(placing.placed(probe));
  const auto next = placing.arrive_and_place({.prompt_tokens = 100});
  EXPECT_FALSE(placing.placed(next)) << "it may really be stuck";
}

TEST(Scheduler, ATenantThatFloodsAnIdlePoolDoesNotDelayOneThatHasUsedItForLong) {
  Placing placing(1);
  warm_up(placing, 1);
  for (int i = 0; i < 300; ++i) {
    const auto number = placing.arrive_and_place({.prompt_tokens = 5000, .tenant = 1});
    placing.now += seconds(1);
    placing.serve(number);
  }
  std::vector<std::uint64_t> flood;
  for (int i = 0; i < 200; ++i)
    flood.push_back(placing.arrive({.prompt_tokens = 5000, .tenant = 2}));
  placing.place();
  const auto steady = placing.arrive({.prompt_tokens = 100, .tenant = 1});
  int before = 0;
  for (; before < 200 && !placing.placed(steady); ++before) {
    const auto last = placing.order.back();
    placing.now += milliseconds(500);
    placing.serve(last);
    placing.place();
  }
  EXPECT_LT(before, 5);
}

TEST(Scheduler, RetriesThatMayNotUseTheFreeBackendDoNotKeepOthersFromIt) {
  Placing placing(2);
  warm_up(placing, 2);
  const auto busy = placing.arrive_and_place({.prompt_tokens = 500'000, .pinned = 0});
  ASSERT_TRUE(placing.placed(busy));
  constexpr std::uint32_t excluded[] = {1};
  for (int i = 0; i < 60; ++i) placing.arrive({.prompt_tokens = 50, .excluded = excluded});
  const auto free = placing.arrive_and_place({.prompt_tokens = 100});
  EXPECT_TRUE(placing.placed(free));
}

TEST(Scheduler, ExpectsANewBackendToBeLikeTheOthersAndSlower) {
  Placing placing(1);
  for (int i = 0; i < 60; ++i) {  // half as fast as the default prior
    const auto number = placing.arrive_and_place({.prompt_tokens = 5000});
    placing.now += milliseconds(1000);
    placing.serve(number);
    placing.now += seconds(1);
  }

  placing.scheduler.add_backend(1, {.identity = 5});

  const double known = seconds_of(placing.scheduler.predicted_prefill(0, 5000, 0));
  EXPECT_NEAR(known, 1, 0.1);
  EXPECT_NEAR(seconds_of(placing.scheduler.predicted_prefill(1, 5000, 0)) / known, 1.5, 0.1);
}

TEST(Scheduler, ReportsOfEnginesChangeNothingForTheOnlySender) {
  Placing placing(1);

  placing.scheduler.polled(0, {.running = 50, .waiting = 50}, placing.now);

  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).wait, Duration{});
}

TEST(Scheduler, AvoidsABackendOnWhichOthersWait) {
  SchedulerOptions options = some_options();
  options.config.shared_backends = true;
  Placing placing(2, options);
  for (int i = 0; i < 5; ++i)
    placing.scheduler.polled(0, {.running = 50, .waiting = 50}, placing.now);

  const auto number = placing.arrive_and_place({.prompt_tokens = 1000});

  EXPECT_EQ(placing.backend_of[number], 1u);
}

TEST(Scheduler, SendsARequestToABackendThatHasItsAdapter) {
  Placing placing(4);
  warm_up(placing, 4);
  const auto backend_for = [&placing](std::uint64_t adapter) {
    placing.now += seconds(10);
    const auto number = placing.arrive_and_place({.prompt_tokens = 1000, .adapter = adapter});
    placing.now += milliseconds(100);
    placing.serve(number);
    return placing.backend_of.at(number);
  };

  // The ties of requests without an adapter go to other backends each time.
  const std::uint32_t own = backend_for(7);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(backend_for(7), own) << "it was sent there before";

  const std::uint32_t reported = (own + 1) % 4;
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    const std::uint64_t held[] = {slot == reported ? 7u : 8u};
    placing.scheduler.adapters(slot, held, 1, placing.now + seconds(10));
  }
  EXPECT_EQ(backend_for(7), reported);
}

TEST(Scheduler, LearnsHowLongABackendLoadsAnAdapter) {
  Placing placing(1);
  warm_up(placing, 1);
  const double prefill = seconds_of(placing.scheduler.predicted_prefill(0, 1000, 0));
  const auto ttft_of = [&placing](std::uint64_t adapter) {
    const auto number = placing.arrive({.prompt_tokens = 1000, .adapter = adapter});
    const auto placements = placing.scheduler.place(placing.now);
    const Duration predicted = placements[0].predicted_ttft;
    placing.now += milliseconds(300);
    placing.serve(number);
    placing.now += seconds(1);
    return seconds_of(predicted);
  };

  EXPECT_NEAR(ttft_of(1), 1 + prefill, 0.1) << "a second, before it is known";
  EXPECT_LT(ttft_of(1), 0.3) << "it is loaded";
  for (std::uint64_t adapter = 2; adapter < 20; ++adapter) ttft_of(adapter);

  EXPECT_NEAR(ttft_of(30), 0.3, 0.06);
  placing.scheduler.backend_cleared(0);
  EXPECT_NEAR(ttft_of(30), 0.3, 0.06) << "it loads it again";
}

TEST(Scheduler, TakesABackendThatHasLoadedNoAdapterToTakeAsLongAsOthers) {
  Placing placing(2);
  warm_up(placing, 2);
  const auto ttft_of = [&placing](std::uint64_t adapter, std::uint32_t pinned) {
    const auto number =
        placing.arrive({.prompt_tokens = 1000, .adapter = adapter, .pinned = pinned});
    const Duration predicted = placing.scheduler.place(placing.now)[0].predicted_ttft;
    placing.now += milliseconds(3000);
    placing.serve(number);
    placing.now += seconds(1);
    return seconds_of(predicted);
  };
  for (std::uint64_t adapter = 1; adapter < 20; ++adapter) ttft_of(adapter, 0);

  EXPECT_NEAR(ttft_of(30, 1), 3, 0.3);
}

TEST(Scheduler, AnAbandonedRequestLeavesNothingBehind) {
  Placing placing(1);
  const auto running = placing.arrive_and_place({.prompt_tokens = 50'000});
  const auto waiting = placing.arrive_and_place({.prompt_tokens = 50'000});
  ASSERT_FALSE(placing.placed(waiting));

  placing.scheduler.abandoned(placing.tickets[waiting], placing.now);
  placing.scheduler.abandoned(placing.tickets[running], placing.now);

  EXPECT_EQ(placing.scheduler.waiting(), 0u);
  EXPECT_EQ(placing.scheduler.forecast(0, placing.now).wait, Duration{});
  EXPECT_TRUE(placing.placed(placing.arrive_and_place({.prompt_tokens = 100})));
}

}  // namespace
}  // namespace evenkeel::testing
