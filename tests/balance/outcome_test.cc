#include "evenkeel/balance/outcome.h"

#include <gtest/gtest.h>

#include <array>

#include "balance/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};

TEST(Outcome, OfAStatus) {
  struct Row {
    int status;
    AttemptOutcome outcome;
  };
  constexpr std::array rows{
      Row{101, AttemptOutcome::success},      Row{200, AttemptOutcome::success},
      Row{304, AttemptOutcome::success},      Row{400, AttemptOutcome::client_error},
      Row{401, AttemptOutcome::client_error}, Row{404, AttemptOutcome::client_error},
      Row{408, AttemptOutcome::client_error}, Row{413, AttemptOutcome::client_error},
      Row{422, AttemptOutcome::client_error}, Row{499, AttemptOutcome::client_error},
      Row{429, AttemptOutcome::overloaded},   Row{503, AttemptOutcome::overloaded},
      Row{500, AttemptOutcome::failed},       Row{501, AttemptOutcome::failed},
      Row{502, AttemptOutcome::failed},       Row{504, AttemptOutcome::failed},
      Row{529, AttemptOutcome::failed},       Row{599, AttemptOutcome::failed},
  };
  for (const Row& row : rows) {
    const AttemptResult result = classify(row.status);
    EXPECT_EQ(result.outcome, row.outcome) << row.status;
    EXPECT_EQ(result.status, row.status);
    EXPECT_FALSE(result.fault);
  }
}

TEST(Outcome, OfAnErrorOfTheBackend) {
  struct Row {
    Fault fault;
    AttemptOutcome outcome;
  };
  constexpr std::array rows{
      Row{Fault::connect_failed, AttemptOutcome::unreachable},
      Row{Fault::connect_timeout, AttemptOutcome::unreachable},
      Row{Fault::tls_failed, AttemptOutcome::unreachable},
      Row{Fault::first_byte_timeout, AttemptOutcome::failed},
      Row{Fault::idle_timeout, AttemptOutcome::failed},
      Row{Fault::backend_closed, AttemptOutcome::failed},
      Row{Fault::backend_protocol, AttemptOutcome::failed},
      Row{Fault::deadline_exceeded, AttemptOutcome::abandoned},
  };
  for (const Row& row : rows) {
    const AttemptResult result = classify(Error{.fault = row.fault, .side = Side::backend});
    EXPECT_EQ(result.outcome, row.outcome) << to_string(row.fault);
    EXPECT_EQ(result.fault, row.fault);
    EXPECT_EQ(result.status, 0);
  }
}

TEST(Outcome, OfAnErrorOnAnotherSideSaysNothingOfTheBackend) {
  for (int fault = 0; fault < fault_count; ++fault) {
    for (const Side side : {Side::client, Side::proxy}) {
      const Error error{.fault = static_cast<Fault>(fault), .side = side};
      EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned) << to_string(error.fault);
    }
  }
}

TEST(Outcome, OfARequestThatMayBeSentAgainSaysNothing) {
  const Error refused{.fault = Fault::backend_closed, .side = Side::backend, .not_processed = true};
  const Error raced{.fault = Fault::backend_closed, .side = Side::backend, .idle_close_race = true};
  const Error no_link{.fault = Fault::connect_failed, .side = Side::backend, .not_processed = true};

  EXPECT_EQ(classify(refused).outcome, AttemptOutcome::abandoned);
  EXPECT_EQ(classify(raced).outcome, AttemptOutcome::abandoned);
  EXPECT_EQ(classify(no_link).outcome, AttemptOutcome::unreachable);
}

TEST(Outcome, OfARequestThatWaitedForItsClientSaysNothing) {
  Error error{.fault = Fault::backend_closed, .side = Side::backend};
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::failed);

  error.awaited_client = true;
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned);
}

TEST(Outcome, OfFailuresAvoidsTheBackendLongerEachTime) {
  const Backend backend(some_spec(0));
  Instant now = noon;

  for (const Duration wait : {50ms, 100ms, 200ms, 400ms, 800ms}) {
    backend.record_outcome(failed, now);
    EXPECT_TRUE(backend.load().in_backoff(now + wait - 1ms));
    EXPECT_FALSE(backend.load().in_backoff(now + wait));
    now += wait;
  }
  EXPECT_EQ(backend.load().failures_in_a_row(), 5u);
  EXPECT_EQ(backend.load().last_failure().status, 500);
}

TEST(Outcome, OfFailuresThatHappenTogetherAvoidsTheBackendOnce) {
  const Backend backend(some_spec(0));

  for (int i = 0; i < 100; ++i) backend.record_outcome(failed, noon);

  EXPECT_EQ(backend.load().failures_in_a_row(), 100u);
  EXPECT_FALSE(backend.load().in_backoff(noon + 50ms));
}

TEST(Outcome, OfATrialIsAwaitedBeforeOtherRequestsFollow) {
  const Backend backend(some_spec(0));
  backend.record_outcome(failed, noon);

  ASSERT_TRUE(backend.try_acquire(noon + 50ms));

  EXPECT_TRUE(backend.load().in_backoff(noon + 99ms));
  EXPECT_FALSE(backend.load().in_backoff(noon + 100ms));
}

TEST(Outcome, OfASuccessEndsTheBackOff) {
  const Backend backend(some_spec(0));
  backend.record_outcome(failed, noon);
  backend.record_outcome(failed, noon + 50ms);

  backend.record_outcome(classify(200), noon + 60ms);

  EXPECT_FALSE(backend.load().needs_trial());
  EXPECT_EQ(backend.load().failures_in_a_row(), 0u);
  backend.record_outcome(failed, noon + 1s);
  EXPECT_FALSE(backend.load().in_backoff(noon + 1050ms));
}

TEST(Outcome, OfAnEstablishedConnectionIsNoSuccess) {
  const Backend backend(some_spec(0));
  backend.record_outcome(failed, noon);

  backend.connected();

  EXPECT_TRUE(backend.load().in_backoff(noon + 49ms));
  EXPECT_EQ(backend.load().failures_in_a_row(), 1u);
}

TEST(Outcome, OfClientsNeverCounts) {
  const Backend backend(some_spec(0));

  for (const int status : {400, 401, 404, 422}) backend.record_outcome(classify(status), noon);
  backend.record_outcome(classify(Error{.fault = Fault::client_gone, .side = Side::client}), noon);

  EXPECT_FALSE(backend.load().needs_trial());
  EXPECT_EQ(backend.load().failures_total(), 0u);
}

TEST(Outcome, OfOverloadParksTheBackendForAsLongAsItSays) {
  const Backend backend(some_spec(0));

  backend.record_outcome(classify(503, 5s), noon);

  EXPECT_TRUE(backend.load().in_backoff(noon + 4999ms));
  EXPECT_FALSE(backend.load().in_backoff(noon + 5s));
  EXPECT_EQ(backend.load().failures_total(), 0u);
  backend.record_outcome(classify(429, 24h), noon + 5s);
  EXPECT_FALSE(backend.load().in_backoff(noon + 5s + Load::max_park));
}

TEST(Outcome, OfOverloadWithoutATimeParksForOneSecondAndThenTwo) {
  const Backend backend(some_spec(0));

  for (int i = 0; i < 10; ++i) backend.record_outcome(classify(429), noon);
  EXPECT_TRUE(backend.load().in_backoff(noon + 999ms));
  EXPECT_FALSE(backend.load().in_backoff(noon + 1s));

  backend.record_outcome(classify(429), noon + 1s);
  EXPECT_TRUE(backend.load().in_backoff(noon + 2999ms));
  EXPECT_FALSE(backend.load().in_backoff(noon + 3s));
}

TEST(Outcome, OfAnOlderRequestDoesNotEndThePark) {
  const Backend backend(some_spec(0));
  backend.record_outcome(classify(503, 5s), noon);

  backend.record_outcome(classify(200), noon + 1s);
  EXPECT_TRUE(backend.load().in_backoff(noon + 4s));

  backend.record_outcome(classify(200), noon + 5s);
  EXPECT_FALSE(backend.load().needs_trial());
}

TEST(Outcome, OfAParkedBackendNeedsNoTrial) {
  const Backend backend(some_spec(0));
  backend.record_outcome(classify(503, 5s), noon);

  ASSERT_TRUE(backend.try_acquire(noon + 5s));

  EXPECT_FALSE(backend.load().in_backoff(noon + 5s));
}

TEST(Outcome, OfALaterRequestEndsThePark) {
  const Backend backend(some_spec(0));
  backend.record_outcome(classify(429, 30s), noon);

  backend.accepted(false, noon - 1s, noon + 1s);
  EXPECT_TRUE(backend.load().parked(noon + 1s));

  backend.accepted(false, noon + 1s, noon + 2s);
  EXPECT_FALSE(backend.load().parked(noon + 2s));
  EXPECT_FALSE(backend.load().needs_trial());
}

TEST(Outcome, OfALaterRequestWithASafeMethodEndsOnlyAParkOfItsKind) {
  const Backend backend(some_spec(0));
  backend.record_outcome(classify(429, 30s), noon);
  backend.accepted(true, noon + 1s, noon + 2s);
  EXPECT_TRUE(backend.load().parked(noon + 2s));

  const Backend other(some_spec(1));
  AttemptResult refused = classify(429, 30s);
  refused.safe_method = true;
  other.record_outcome(refused, noon);
  other.accepted(true, noon + 1s, noon + 2s);
  EXPECT_FALSE(other.load().parked(noon + 2s));
}

AttemptResult refused(Instant sent, int status = 429) {
  AttemptResult result = classify(status, 30s);
  result.sent = sent;
  return result;
}

TEST(Outcome, OfRequestsThatWereOnTheirWayDoesNotKeepAParkedBackendFromOthers) {
  const Backend backend(some_spec(0));
  backend.record_outcome(refused(noon - 2s), noon);
  ASSERT_TRUE(backend.load().takes_overflow(noon + 1ms));
  ASSERT_TRUE(backend.try_acquire(noon + 1ms));

  for (int i = 1; i <= 7; ++i) backend.record_outcome(refused(noon - 1s), noon + i * 7ms);

  EXPECT_TRUE(backend.load().takes_overflow(noon + 1001ms)) << "none of them was that one";
  backend.accepted(false, noon + 1ms, noon + 60ms);
  EXPECT_FALSE(backend.load().parked(noon + 60ms));
}

TEST(Outcome, OfARequestToAParkedBackendIsARefusalHoweverLateItIs) {
  const Backend backend(some_spec(0));
  backend.record_outcome(refused(noon - 2s), noon);
  Instant sent = noon + 10ms;

  for (const Duration deferred : {1s, 2s, 4s}) {
    ASSERT_TRUE(backend.try_acquire(sent));
    const Instant refused_at = sent + 2s;
    backend.record_outcome(refused(sent), refused_at);
    EXPECT_FALSE(backend.load().takes_overflow(refused_at + deferred - 1ms));
    EXPECT_TRUE(backend.load().takes_overflow(refused_at + deferred));
    sent = refused_at + deferred;
  }
}

TEST(Outcome, OfALaterRequestDoesNotEndTheTimeThatA503AsksFor) {
  const Backend backend(some_spec(0));
  backend.record_outcome(classify(429, 30s), noon);
  backend.record_outcome(classify(503, 5s), noon);

  backend.accepted(false, noon + 1s, noon + 2s);
  EXPECT_TRUE(backend.load().parked(noon + 2s));

  backend.accepted(false, noon + 6s, noon + 7s);
  EXPECT_FALSE(backend.load().parked(noon + 7s)) << "the rest was a 429's";
}

TEST(Outcome, OfRequestsWhileAllAreParkedDefersNoTrial) {
  const Backend backend(some_spec(0));
  backend.record_outcome(refused(noon - 1s), noon);

  for (Instant now = noon + 10ms; now < noon + 5s; now += 10ms) {
    ASSERT_TRUE(backend.try_acquire(now));
    backend.record_outcome(refused(now), now);
  }

  EXPECT_TRUE(backend.load().takes_trial(false, noon + 9s));
}

TEST(Outcome, OfAParkByA429AllowsATrialAfterOneTwoFourSeconds) {
  const Backend backend(some_spec(0));
  Instant refused_at = noon;
  backend.record_outcome(refused(noon - 1s), noon);

  for (const Duration deferred : {1s, 1s, 2s, 4s, 8s}) {
    EXPECT_FALSE(backend.load().takes_trial(false, refused_at + deferred - 1ms));
    ASSERT_TRUE(backend.load().takes_trial(false, refused_at + deferred));
    refused_at += deferred;
    ASSERT_TRUE(backend.try_acquire(refused_at));
    EXPECT_FALSE(backend.load().takes_trial(false, refused_at)) << "one at a time";
    backend.record_outcome(refused(refused_at), refused_at);
  }
}

TEST(Outcome, OfAParkByA503AllowsNoTrial) {
  const Backend backend(some_spec(0));
  backend.record_outcome(refused(noon - 1s), noon);
  backend.record_outcome(refused(noon - 1s, 503), noon);
  for (Instant now = noon; now < noon + 30s; now += 1s) {
    EXPECT_FALSE(backend.load().takes_trial(false, now));
  }
}

TEST(Outcome, OfAParkBySafeMethodsAloneAllowsATrialWithOne) {
  const Backend backend(some_spec(0));
  AttemptResult safe = refused(noon - 1s);
  safe.safe_method = true;
  backend.record_outcome(safe, noon);
  EXPECT_TRUE(backend.load().takes_trial(true, noon + 2s));
  EXPECT_TRUE(backend.load().takes_trial(false, noon + 2s));

  backend.record_outcome(refused(noon - 1s), noon);
  EXPECT_FALSE(backend.load().takes_trial(true, noon + 2s));
  EXPECT_TRUE(backend.load().takes_trial(false, noon + 2s));
}

/// How many requests a backend gets in a minute that answers all of them so, while the others of
/// its pool are full, or have room.
int requests_in_a_minute(const AttemptResult& answer, bool others_are_full = true) {
  const Backend backend(some_spec(0));
  const Load& load = backend.load();
  int requests = 0;
  for (Instant now = noon; now < noon + 60s; now += 10ms) {
    const bool gets_one = others_are_full ? load.takes_overflow(now) : load.takes_trial(false, now);
    if (load.in_backoff(now) && !gets_one) continue;
    EXPECT_TRUE(backend.try_acquire(now));
    AttemptResult result = answer;
    result.sent = now;
    backend.record_outcome(result, now);
    backend.release();
    ++requests;
  }
  return requests;
}

TEST(Outcome, OfAllRequestsBeingARefusalLeavesFewOfThem) {
  EXPECT_LE(requests_in_a_minute(classify(429, 30s)), 7);
  EXPECT_LE(requests_in_a_minute(classify(429)), 12);
  EXPECT_LE(requests_in_a_minute(classify(503, 30s)), 2);
  EXPECT_LE(requests_in_a_minute(classify(429, 30s), false), 7);
}

TEST(Outcome, OfAStreamResetForTheRequestIsNone) {
  constexpr std::uint32_t protocol_error = 1;
  constexpr std::uint32_t internal_error = 2;
  Error error{.fault = Fault::backend_closed, .side = Side::backend, .reset_code = protocol_error};
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned);

  error.reset_code = internal_error;
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::failed);
}

TEST(Outcome, OfATrialThatCannotConnectStartsTheLongerBackOff) {
  const Backend backend(some_spec(0));
  backend.record_outcome(failed, noon);
  ASSERT_TRUE(backend.try_acquire(noon + 50ms));

  backend.connect_failed(noon + 51ms);

  EXPECT_TRUE(backend.load().unreachable(noon + 1050ms));
  EXPECT_FALSE(backend.load().unreachable(noon + 1051ms));
}

TEST(Outcome, OfAConnectionAfterRefusalsForgetsFailures) {
  const Backend backend(some_spec(0));
  backend.record_outcome(failed, noon);
  backend.record_outcome({.outcome = AttemptOutcome::unreachable, .fault = Fault::connect_failed},
                         noon + 1s);

  backend.connected();

  EXPECT_FALSE(backend.load().needs_trial());
  EXPECT_EQ(backend.load().failures_in_a_row(), 0u);
}

}  // namespace
}  // namespace evenkeel::testing
