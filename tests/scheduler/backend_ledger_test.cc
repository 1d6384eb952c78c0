#include "scheduler/backend_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

constexpr EngineSpeed::Coefficients speed = {.step = 0.02,
                                             .per_stream = 1e-4,
                                             .per_context_token = 1e-7,
                                             .per_prefill_token = 5e-5,
                                             .per_attention_pair = 1e-9};

BackendLedger some_ledger(double kv_tokens = 0) {
  BackendLedger ledger;
  ledger.reset(speed, 8192, kv_tokens);
  return ledger;
}

LedgerEntry prompt_of(double tokens, double seconds) {
  return {
      .prompt_tokens = tokens, .uncached = tokens, .prefill_seconds = seconds, .tpot_target = 0.1};
}

TEST(BackendLedger, WaitsForTheRestOfTheHeadAndForAllBehindIt) {
  BackendLedger ledger = some_ledger();
  LedgerEntry first = prompt_of(1000, 0.5);
  LedgerEntry second = prompt_of(1000, 0.25);

  ledger.dispatched(first, 10);
  ledger.dispatched(second, 10.1);

  EXPECT_DOUBLE_EQ(ledger.wait_seconds(10.1), 0.4 + 0.25);
  EXPECT_NEAR(ledger.wait_seconds(10.47), 0.3 * 0.47 + 0.25, 1e-9);
  EXPECT_NEAR(ledger.wait_seconds(14), 0.3 * 4 + 0.25, 1e-9) << "a late head stays late";
}

TEST(BackendLedger, CountsTheHeadFromTheLastFirstToken) {
  BackendLedger ledger = some_ledger();
  LedgerEntry first = prompt_of(1000, 0.5);
  LedgerEntry second = prompt_of(1000, 0.5);
  ledger.dispatched(first, 10);
  ledger.dispatched(second, 10);

  ledger.first_token(first, 10.5);

  EXPECT_EQ(first.stage, LedgerEntry::Stage::decode);
  EXPECT_NEAR(ledger.wait_seconds(10.5), second.prefill_seconds, 1e-9);
  EXPECT_DOUBLE_EQ(ledger.streams(), 1);
}

TEST(BackendLedger, IsIdleWhenEverythingHasEnded) {
  BackendLedger ledger = some_ledger(100'000);
  LedgerEntry prefill = prompt_of(1000, 0.5);
  LedgerEntry stream = prompt_of(1000, 0.5);
  ledger.dispatched(stream, 1);
  ledger.first_token(stream, 2);
  ledger.dispatched(prefill, 3);

  ledger.ended(stream, 4);
  ledger.ended(prefill, 4);
  ledger.ended(prefill, 4);  // is not here any more

  EXPECT_TRUE(ledger.idle());
  EXPECT_EQ(ledger.in_flight(), 0u);
  EXPECT_EQ(ledger.wait_seconds(4), 0);
  EXPECT_EQ(ledger.memory_use(100), 0);
}

TEST(BackendLedger, LearnsPrefillsFromFirstTokens) {
  BackendLedger ledger = some_ledger();
  double now = 0;
  for (int i = 0; i < 50; ++i) {
    const double tokens = 2000 + 300 * i;
    LedgerEntry entry = prompt_of(tokens, ledger.prefill_seconds(tokens, 0, 0.02));
    ledger.dispatched(entry, now);
    now += 4 * (5e-5 * tokens + 1e-9 * tokens * tokens / 2) + std::ceil(tokens / 8192) * 0.02;
    ledger.first_token(entry, now);
    ledger.ended(entry, now);
    now += 1;
  }

  const double expected = 4 * (5e-5 * 8000 + 1e-9 * 8000 * 8000 / 2) + 0.02;
  EXPECT_NEAR(ledger.prefill_seconds(8000, 0, 0.02) / expected, 1, 0.1);
}

// Two prompts of one step show their first tokens together.
TEST(BackendLedger, LearnsPromptsThatWereComputedTogetherAsOne) {
  BackendLedger ledger = some_ledger();
  double now = 0;
  for (int i = 0; i < 60; ++i) {
    const double tokens = 1000 + 50 * i;
    LedgerEntry entries[2] = {prompt_of(tokens, 0.1), prompt_of(tokens, 0.1)};
    ledger.dispatched(entries[0], now);
    ledger.dispatched(entries[1], now);
    now += 2 * (5e-5 * tokens + 1e-9 * tokens * tokens / 2) + 0.02;
    ledger.first_token(entries[0], now);
    ledger.first_token(entries[1], now);
    ledger.ended(entries[0], now);
    ledger.ended(entries[1], now);
    now += 1;
  }

  const double expected = 5e-5 * 2500 + 1e-9 * 2500 * 2500 / 2 + 0.02;
  EXPECT_NEAR(ledger.prefill_seconds(2500, 0, 0.02) / expected, 1, 0.1);
}

TEST(BackendLedger, LearnsStepsOnlyWhileNoPromptIsComputed) {
  BackendLedger ledger = some_ledger();
  LedgerEntry stream = prompt_of(1000, 0.1);
  LedgerEntry prefill = prompt_of(1000, 0.1);
  ledger.dispatched(stream, 0);
  ledger.first_token(stream, 0.1);

  ledger.dispatched(prefill, 1.0);
  ledger.token(stream, 2, 0.5, 1.5);
  ledger.first_token(prefill, 1.6);
  ledger.token(stream, 3, 0.3, 1.8);  // began while the prompt was computed
  EXPECT_EQ(ledger.speed().step_samples(), 0u);

  ledger.token(stream, 4, 0.1, 2.0);
  EXPECT_EQ(ledger.speed().step_samples(), 1u);
}

/// An engine that loads adapters, one after the other.
struct LoadingEngine {
  void load(int count, double seconds) {
    for (int i = 0; i < count; ++i) {
      LedgerEntry entry = prompt_of(1000, 0.1);
      entry.load_seconds = ledger.load_seconds().value_or(1);
      entry.prefill_seconds += entry.load_seconds;
      ledger.dispatched(entry, now);
      now += 0.1 + seconds;
      ledger.first_token(entry, now);
      ledger.ended(entry, now);
    }
  }

  BackendLedger ledger = some_ledger();
  double now = 0;
};

TEST(BackendLedger, LearnsLittleFromALoadDuringWhichTheEngineStalls) {
  for (const int known : {0, 20}) {
    LoadingEngine engine;
    engine.load(known, 1);

    engine.load(1, 60);

    EXPECT_NEAR(engine.ledger.load_seconds().value(), 1.9, 1e-6) << known << " loads are known";
    engine.load(10, 1);
    EXPECT_NEAR(engine.ledger.load_seconds().value(), 1, 0.05);
  }
}

TEST(BackendLedger, LearnsThatLoadsHaveBecomeLonger) {
  LoadingEngine engine;
  engine.load(30, 0.01);
  EXPECT_NEAR(engine.ledger.load_seconds().value(), 0.01, 1e-3);

  engine.load(1, 0.8);
  EXPECT_NEAR(engine.ledger.load_seconds().value(), 0.25, 0.01) << "less than a second is no stall";
  engine.load(15, 20);

  EXPECT_NEAR(engine.ledger.load_seconds().value(), 20, 1);
}

TEST(BackendLedger, EndsAnUnseenPrefillWhenItIsPredictedTo) {
  BackendLedger ledger = some_ledger();
  LedgerEntry unseen = prompt_of(1000, 0.5);
  unseen.streams = false;
  ledger.dispatched(unseen, 10);

  ledger.advance(10.4);
  EXPECT_EQ(unseen.stage, LedgerEntry::Stage::prefill);
  ledger.advance(10.6);

  EXPECT_EQ(unseen.stage, LedgerEntry::Stage::decode);
  EXPECT_DOUBLE_EQ(unseen.first_token_at, 10.5);
  EXPECT_EQ(ledger.wait_seconds(10.6), 0);
}

TEST(BackendLedger, AnUnseenPrefillIsOverWhenALaterOneIs) {
  BackendLedger ledger = some_ledger();
  LedgerEntry unseen = prompt_of(1000, 5);
  unseen.streams = false;
  LedgerEntry seen = prompt_of(1000, 0.1);
  ledger.dispatched(unseen, 10);
  ledger.dispatched(seen, 10);

  ledger.first_token(seen, 10.2);

  EXPECT_EQ(unseen.stage, LedgerEntry::Stage::decode);
  EXPECT_FALSE(ledger.computes_prompts());
}

TEST(BackendLedger, AnUnseenPrefillIsOverWhenItsResponseIs) {
  BackendLedger ledger = some_ledger();
  LedgerEntry before = prompt_of(1000, 5);
  LedgerEntry unseen = prompt_of(1000, 5);
  before.streams = unseen.streams = false;
  ledger.dispatched(before, 10);
  ledger.dispatched(unseen, 10);

  ledger.finishing(unseen, 10, 12);
  ledger.ended(unseen, 12);

  EXPECT_EQ(before.stage, LedgerEntry::Stage::decode);
  EXPECT_FALSE(ledger.computes_prompts());
  EXPECT_EQ(ledger.finished(), 1u);
}

/// Responses of which nothing is seen but when they end, two at a time, on an engine that is
/// `slowness` times slower than its prior.
BackendLedger after_unseen_responses(double slowness, bool length_is_known) {
  BackendLedger ledger = some_ledger();
  Rng rng(3);
  double now = 0;
  for (int i = 0; i < 50; ++i) {
    const double tokens = 500 + rng.below(8000);
    const double output = 2 + rng.below(60);
    LedgerEntry unseen = prompt_of(tokens, ledger.prefill_seconds(tokens, 0, 0.02));
    unseen.streams = false;
    ledger.dispatched(unseen, now);
    const double prefill = 5e-5 * tokens + 1e-9 * tokens * tokens / 2;
    const double steps = output - 1 + std::ceil(tokens / 8192);
    now += slowness * (prefill + steps * (0.02 + 1e-4 + 1e-7 * tokens));
    ledger.advance(now);
    ledger.finishing(unseen, length_is_known ? output : 0, now);
    ledger.ended(unseen, now);
    now += 1;
  }
  return ledger;
}

TEST(BackendLedger, LearnsStepsAndPrefillsFromUnseenResponses) {
  for (const double slowness : {0.25, 4.0}) {
    const BackendLedger ledger = after_unseen_responses(slowness, true);

    const double step = slowness * (0.02 + 1e-4 + 1e-7 * 4000);
    const double prefill = slowness * (5e-5 * 4000 + 1e-9 * 4000 * 4000 / 2);
    EXPECT_NEAR(ledger.speed().step_seconds(1, 4000) / step, 1, 0.1) << slowness;
    EXPECT_NEAR((ledger.prefill_seconds(4000, 0, step) - step) / prefill, 1, 0.2) << slowness;
  }
}

TEST(BackendLedger, LearnsNothingFromUnseenResponsesOfUnknownLength) {
  const BackendLedger ledger = after_unseen_responses(4, false);

  EXPECT_EQ(ledger.speed().step_seconds(1, 4000), some_ledger().speed().step_seconds(1, 4000));
}

// Every other prompt is not streamed: the first token that is seen is that of both.
TEST(BackendLedger, LearnsAnUnseenPrefillTogetherWithTheSeenOneBehindIt) {
  BackendLedger ledger = some_ledger();
  double now = 0;
  for (int i = 0; i < 60; ++i) {
    const double tokens = 1000 + 50 * i;
    LedgerEntry entries[2] = {prompt_of(tokens, ledger.prefill_seconds(tokens, 0, 0.02)),
                              prompt_of(tokens, ledger.prefill_seconds(tokens, 0, 0.02))};
    entries[0].streams = false;
    for (LedgerEntry& entry : entries) ledger.dispatched(entry, now);
    now += 2 * (2 * (5e-5 * tokens + 1e-9 * tokens * tokens / 2) + 0.02);
    ledger.advance(now);
    ledger.first_token(entries[1], now);
    for (LedgerEntry& entry : entries) ledger.ended(entry, now);
    now += 1;
  }

  const double expected = 2 * (5e-5 * 2500 + 1e-9 * 2500 * 2500 / 2) + 0.02;
  EXPECT_NEAR(ledger.prefill_seconds(2500, 0, 0.02) / expected, 1, 0.1);
}

// sigma = 0.1 (1 + 200) - 0 - 200 * 1.5 tau
TEST(BackendLedger, PricesAPromptByTheSlackOfItsStreams) {
  BackendLedger ledger = some_ledger();
  LedgerEntry stream = prompt_of(0, 0.1);
  ledger.dispatched(stream, 0);
  ledger.first_token(stream, 1);
  const OutputLengths lengths;  // 200 more tokens are expected

  const double slack = 0.1 * 201 - 200 * 1.5 * ledger.step_seconds();
  EXPECT_NEAR(ledger.violations(1, lengths, 1, 0), 1 / slack, 1e-9);
  EXPECT_DOUBLE_EQ(ledger.violations(100, lengths, 1, 0), 1);
}

TEST(BackendLedger, PricesAPromptByTheStreamsThatAreToComeFromTheQueue) {
  BackendLedger ledger = some_ledger();
  LedgerEntry queued = prompt_of(0, 0.1);
  const OutputLengths lengths;
  EXPECT_EQ(ledger.violations(1, lengths, 0, 0), 0);

  ledger.dispatched(queued, 0);

  const double slack = 0.1 * 201 - 200 * 1.5 * ledger.step_seconds();
  EXPECT_NEAR(ledger.violations(1, lengths, 0.01, 0), 1 / slack, 1e-9);
}

TEST(BackendLedger, DoesNotTakeAStalledStreamForOneThatIsAhead) {
  BackendLedger ledger = some_ledger();
  LedgerEntry stream = prompt_of(0, 0.1);
  ledger.dispatched(stream, 0);
  ledger.first_token(stream, 1);
  const OutputLengths lengths;

  const double at_first = ledger.violations(1, lengths, 1, 0);
  const double stalled = ledger.violations(1, lengths, 9, 0);

  EXPECT_GT(stalled, 1.5 * at_first);
}

TEST(BackendLedger, DoesNotTakeAnUnseenStreamForOneThatIsLate) {
  BackendLedger ledger = some_ledger();
  LedgerEntry unseen = prompt_of(0, 0.1);
  unseen.streams = false;
  ledger.dispatched(unseen, 0);
  ledger.advance(1);
  OutputLengths lengths;
  for (int i = 0; i < 400; ++i) lengths.learn(1, 1000);

  // 19 s later it has as much slack as at first, and half of its output to come.
  EXPECT_NEAR(ledger.violations(1, lengths, 19, 0), ledger.violations(1, lengths, 1, 0), 0.002);
  EXPECT_GT(ledger.violations(1, lengths, 19, 0), 0);
}

TEST(BackendLedger, CountsTheMemoryOfPromptsAndHalfOfTheOutputs) {
  BackendLedger ledger = some_ledger(10'000);
  LedgerEntry stream = prompt_of(1000, 0.1);
  LedgerEntry prefill = prompt_of(2000, 0.1);
  ledger.dispatched(stream, 0);
  ledger.first_token(stream, 1);
  ledger.dispatched(prefill, 2);

  EXPECT_DOUBLE_EQ(ledger.memory_use(400), (1000 + 2000 + 200) / 10'000.0);
  EXPECT_EQ(some_ledger().memory_use(400), 0) << "unknown";
}

TEST(BackendLedger, EstimatesTheWorkOfOthersFromReports) {
  BackendLedger ledger = some_ledger();

  for (int i = 0; i < 8; ++i) ledger.polled({.running = 20, .waiting = 5}, 0, i);

  EXPECT_NEAR(ledger.streams(), 20, 1);
  EXPECT_GT(ledger.wait_seconds(7), 1.0);
  EXPECT_LT(ledger.wait_seconds(8), ledger.wait_seconds(7)) << "they work it off";
  EXPECT_FALSE(ledger.idle());
}

TEST(BackendLedger, ForgetsTheWorkOfOthersWhenNoReportFollows) {
  BackendLedger ledger = some_ledger();
  for (int i = 0; i < 8; ++i) ledger.polled({.running = 20, .waiting = 5}, 0, i);
  const double busy_step = ledger.step_seconds();

  ledger.advance(8);
  EXPECT_FALSE(ledger.idle()) << "polls are no further apart";
  ledger.advance(20);

  EXPECT_TRUE(ledger.idle());
  EXPECT_DOUBLE_EQ(ledger.streams(), 0);
  EXPECT_LT(ledger.step_seconds(), busy_step);
}

TEST(BackendLedger, LearnsAgainWhenTheWorkOfOthersIsDone) {
  BackendLedger ledger = some_ledger();
  for (int i = 0; i < 8; ++i) ledger.polled({.running = 20, .waiting = 5}, 0, i);
  std::deque<LedgerEntry> entries;

  for (int i = 0; i < 3; ++i) {
    LedgerEntry& entry = entries.emplace_back(prompt_of(1000, 0.5));
    ledger.dispatched(entry, 20 + i);
    ledger.first_token(entry, 20.5 + i);
    ledger.ended(entry, 20.6 + i);
  }

  EXPECT_GE(ledger.speed().prefill_samples(), 2u);
}

TEST(BackendLedger, CountsTheOwnRequestsThatTheReportHas) {
  BackendLedger ledger = some_ledger();

  // Ten of its own were running then, and have ended since.
  for (int i = 0; i < 8; ++i) ledger.polled({.running = 10, .waiting = 0}, 10, i);

  EXPECT_DOUBLE_EQ(ledger.streams(), 0);
  EXPECT_TRUE(ledger.idle());
}

TEST(BackendLedger, IgnoresReportsThatSayTooLittle) {
  BackendLedger ledger = some_ledger();

  ledger.polled({.running = 20}, 0, 1);

  EXPECT_TRUE(ledger.idle());
}

}  // namespace
}  // namespace evenkeel::testing
