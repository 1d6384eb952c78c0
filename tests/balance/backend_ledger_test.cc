#include "balance/backend_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

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

TEST(BackendLedger, LearnsStepsFromTheDurationOfUnseenStreams) {
  BackendLedger ledger = some_ledger();
  double now = 0;
  for (int i = 0; i < 50; ++i) {
    LedgerEntry unseen = prompt_of(1000, 0.1);
    unseen.streams = false;
    ledger.dispatched(unseen, now);
    ledger.advance(now + 0.2);
    now += 0.1 + 100 * 0.06;  // a token in 60 ms, two thirds of it without interference
    ledger.finishing(unseen, 101, now);
    ledger.ended(unseen, now);
  }

  EXPECT_EQ(ledger.speed().step_samples(), 50u);
  EXPECT_NEAR(ledger.speed().step_seconds(1, 1000), 0.04, 0.004);
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

  for (int i = 0; i < 8; ++i) ledger.polled({.running = 20, .waiting = 5}, i);

  EXPECT_NEAR(ledger.streams(), 20, 1);
  EXPECT_GT(ledger.wait_seconds(7), 1.0);
  EXPECT_LT(ledger.wait_seconds(8), ledger.wait_seconds(7)) << "they work it off";
  EXPECT_FALSE(ledger.idle());
}

TEST(BackendLedger, IgnoresReportsThatSayTooLittle) {
  BackendLedger ledger = some_ledger();

  ledger.polled({.running = 20}, 1);

  EXPECT_TRUE(ledger.idle());
}

}  // namespace
}  // namespace evenkeel::testing
