// The table of transitions: serving -> avoided -> trial -> serving.
#include "evenkeel/backend/backend_state.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "backend/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};

AttemptResult refused(Duration retry_after = {}, Instant sent = {}) {
  AttemptResult result = classify(429, retry_after);
  result.sent = sent;
  return result;
}

/// A backend that begins to be avoided at noon, for each reason.
struct Avoided {
  explicit Avoided(Avoidance why) {
    switch (why) {
      case Avoidance::none: break;
      case Avoidance::failing: state.failed(failed, noon); break;
      case Avoidance::overloaded: state.overloaded(refused(), noon); break;
      case Avoidance::unreachable: state.connect_failed(noon); break;
      case Avoidance::silent: state.begin_silence(noon); break;
      case Avoidance::ejected:
        state.eject(EjectionReason::consecutive, 2s, noon);
        state.clear(OutOfRotation::ejected);
        break;
    }
  }
  /// The next request is the trial, 10 s after noon.
  void begin_trial() {
    state.begin_request(trial);
    EXPECT_TRUE(state.avoided(trial));
  }
  bool next_request_is_a_trial() { return !state.serving() && !state.avoided(trial + 1ms); }

  static constexpr Instant trial = noon + 10s;
  BackendState state;
};

constexpr std::initializer_list<Avoidance> all_reasons = {Avoidance::failing, Avoidance::overloaded,
                                                          Avoidance::unreachable, Avoidance::silent,
                                                          Avoidance::ejected};

TEST(BackendState, IsAvoidedForEachReasonUntilATrialIsDue) {
  struct Row {
    Avoidance why;
    Duration first;
  };
  for (const auto& [why, first] : {Row{Avoidance::failing, 50ms},
                                   {Avoidance::overloaded, 1s},
                                   {Avoidance::unreachable, 1s},
                                   {Avoidance::silent, 2s},
                                   {Avoidance::ejected, 2s}}) {
    Avoided avoided(why);

    EXPECT_EQ(avoided.state.why(), why);
    EXPECT_FALSE(avoided.state.serving());
    EXPECT_TRUE(avoided.state.avoided(noon + first - 1ms));
    EXPECT_FALSE(avoided.state.avoided(noon + first));
  }
}

TEST(BackendState, AwaitsTheOutcomeOfATrialBeforeAnother) {
  struct Row {
    Avoidance why;
    Duration another;
  };
  for (const auto& [why, another] : {Row{Avoidance::failing, 50ms},
                                     {Avoidance::overloaded, 1s},
                                     {Avoidance::unreachable, 2s},
                                     {Avoidance::silent, 4s},
                                     {Avoidance::ejected, 30s}}) {
    Avoided avoided(why);
    avoided.begin_trial();

    EXPECT_TRUE(avoided.state.avoided(Avoided::trial + another - 1ms));
    EXPECT_FALSE(avoided.state.avoided(Avoided::trial + another)) << "its client may have left";
  }
}

TEST(BackendState, ServesOnceItsTrialHasEndedWell) {
  for (const Avoidance why : all_reasons) {
    Avoided avoided(why);
    avoided.begin_trial();

    EXPECT_TRUE(avoided.state.succeeded(false, Avoided::trial, Avoided::trial + 1ms));

    EXPECT_TRUE(avoided.state.serving());
    EXPECT_EQ(avoided.state.why(), Avoidance::none);
    EXPECT_EQ(avoided.state.failures_in_a_row(), 0u);
  }
}

TEST(BackendState, ServesOnceItsTrialIsAnsweredUnlessTheAnswerMayStillBreak) {
  for (const Avoidance why : all_reasons) {
    Avoided avoided(why);
    avoided.begin_trial();

    EXPECT_TRUE(avoided.state.accepted(false, Avoided::trial, Avoided::trial + 1ms));

    const bool may_break = why == Avoidance::failing || why == Avoidance::ejected;
    EXPECT_EQ(avoided.next_request_is_a_trial(), may_break);
    EXPECT_EQ(avoided.state.serving(), !may_break);
  }
}

TEST(BackendState, TriesTheNextRequestIfTheAnswerSaysNothing) {
  for (const Avoidance why : all_reasons) {
    Avoided avoided(why);
    avoided.begin_trial();

    EXPECT_TRUE(avoided.state.undecided(Avoided::trial, Avoided::trial + 1ms));

    const bool is_reached = why == Avoidance::unreachable;
    EXPECT_EQ(avoided.state.serving(), is_reached);
    EXPECT_EQ(avoided.next_request_is_a_trial(), !is_reached);
  }
}

TEST(BackendState, IsNotTriedEarlyForWhatIsAnsweredMeanwhile) {
  for (const Avoidance why : {Avoidance::failing, Avoidance::overloaded, Avoidance::ejected}) {
    Avoided avoided(why);

    EXPECT_FALSE(avoided.state.undecided(noon + 1ms, noon + 2ms));

    EXPECT_TRUE(avoided.state.avoided(noon + 49ms));
  }
}

TEST(BackendState, LearnsNothingFromRequestsThatWereOnTheirWay) {
  for (const Avoidance why : all_reasons) {
    Avoided avoided(why);
    avoided.begin_trial();

    const bool serves = avoided.state.succeeded(false, noon - 1s, Avoided::trial + 1ms);

    EXPECT_EQ(serves, why == Avoidance::failing) << "its last request has not failed";
  }
}

TEST(BackendState, IsAvoidedLongerIfItsTrialFails) {
  for (const Avoidance why : all_reasons) {
    Avoided avoided(why);
    avoided.begin_trial();

    AttemptResult result = refused(20s, Avoided::trial);
    avoided.state.overloaded(result, Avoided::trial + 1ms);

    EXPECT_TRUE(avoided.state.avoided(Avoided::trial + 20s));
    EXPECT_FALSE(avoided.state.avoided(Avoided::trial + 20001ms));
  }
}

TEST(BackendState, DoublesTheTimeOfFailures) {
  BackendState state;
  Instant now = noon;

  for (const Duration wait : {50ms, 100ms, 200ms, 400ms, 800ms}) {
    state.failed(failed, now);
    EXPECT_TRUE(state.avoided(now + wait - 1ms));
    EXPECT_FALSE(state.avoided(now + wait));
    now += wait;
  }
  EXPECT_EQ(state.failures_in_a_row(), 5u);
  EXPECT_EQ(state.details().last_failure.status, 500);
}

TEST(BackendState, DoublesTheTimeOfConnectionsThatFailUpToTenSeconds) {
  BackendState state;
  Instant now = noon;

  for (const Duration wait : {1s, 2s, 4s, 8s, 10s, 10s}) {
    state.connect_failed(now);
    EXPECT_TRUE(state.unreachable(now + wait - 1ms));
    EXPECT_FALSE(state.unreachable(now + wait));
    now += wait;
  }
}

TEST(BackendState, DoublesTheTimeOfOverloadThatNamesNone) {
  BackendState state;

  for (int i = 0; i < 10; ++i) state.overloaded(refused(), noon);
  EXPECT_TRUE(state.avoided(noon + 999ms));
  EXPECT_FALSE(state.avoided(noon + 1s));

  state.overloaded(refused(), noon + 1s);
  EXPECT_TRUE(state.avoided(noon + 2999ms));
  EXPECT_FALSE(state.avoided(noon + 3s));
}

TEST(BackendState, CountsFailuresTogetherAsOne) {
  BackendState failing;
  BackendState unreachable;

  for (int i = 0; i < 100; ++i) failing.failed(failed, noon);
  for (int i = 0; i < 100; ++i) unreachable.connect_failed(noon + i * 1ms);

  EXPECT_EQ(failing.failures_in_a_row(), 100u);
  EXPECT_FALSE(failing.avoided(noon + 50ms));
  EXPECT_EQ(unreachable.connect_failures(), 1u);
  EXPECT_FALSE(unreachable.avoided(noon + 1s));
}

TEST(BackendState, KeepsTheTimeThatAServerAsksFor) {
  BackendState state;
  state.overloaded(refused(20s), noon);

  state.overloaded(refused(), noon + 1s);
  state.failed(failed, noon + 2s);
  state.succeeded(false, noon - 1s, noon + 3s);
  EXPECT_TRUE(state.avoided(noon + 19s));
  EXPECT_FALSE(state.avoided(noon + 20s));

  BackendState other;
  other.overloaded(refused(24h), noon);
  EXPECT_FALSE(other.avoided(noon + 30s));
}

TEST(BackendState, ServesAgainIfItAcceptsALaterRequestMeanwhile) {
  BackendState state;
  state.overloaded(refused(30s), noon);

  EXPECT_FALSE(state.accepted(false, noon - 1s, noon + 1s)) << "it was sent before";
  EXPECT_TRUE(state.accepted(false, noon + 1s, noon + 2s)) << "all others were avoided too";

  EXPECT_TRUE(state.serving());
}

TEST(BackendState, IsNotProvenWellBySafeMethodsIfOthersHaveFailed) {
  AttemptResult safe = refused(30s);
  safe.safe_method = true;
  BackendState state;
  state.overloaded(safe, noon);
  EXPECT_TRUE(state.accepted(true, noon + 1s, noon + 2s));

  state.overloaded(refused(30s), noon + 3s);
  EXPECT_FALSE(state.accepted(true, noon + 4s, noon + 5s));
  state.forget();
  state.failed(failed, noon + 6s);
  EXPECT_FALSE(state.succeeded(true, noon + 7s, noon + 8s));
  EXPECT_EQ(state.failures_in_a_row(), 1u);
  EXPECT_TRUE(state.succeeded(true, noon + 17s, noon + 18s)) << "long ago";
}

/// How many requests a backend gets in a minute that answers all of them so.
int requests_in_a_minute(const AttemptResult& answer) {
  BackendState state;
  int requests = 0;
  for (Instant now = noon; now < noon + 60s; now += 10ms) {
    if (state.avoided(now)) continue;
    state.begin_request(now);
    AttemptResult result = answer;
    result.sent = now;
    state.overloaded(result, now);
    ++requests;
  }
  return requests;
}

TEST(BackendState, LetsFewRequestsToAServerThatRefusesThemAll) {
  EXPECT_LE(requests_in_a_minute(refused(30s)), 2);
  EXPECT_LE(requests_in_a_minute(refused()), 7);
}

TEST(BackendState, ThatCannotBeConnectedIsAvoidedLongerThanOneThatFails) {
  BackendState state;
  state.failed(failed, noon);
  state.begin_request(noon + 50ms);

  state.connect_failed(noon + 51ms);

  EXPECT_TRUE(state.unreachable(noon + 1050ms));
  EXPECT_FALSE(state.unreachable(noon + 1051ms));
}

TEST(BackendState, StaysEjectedWhateverItsTrialsMeetUntilOneSucceeds) {
  Avoided ejected(Avoidance::ejected);
  ejected.begin_trial();

  ejected.state.connect_failed(Avoided::trial);

  EXPECT_EQ(ejected.state.why(), Avoidance::ejected);
  EXPECT_TRUE(ejected.state.unreachable(Avoided::trial + 999ms));
  EXPECT_FALSE(ejected.state.avoided(Avoided::trial + 1s));
}

TEST(BackendState, CountsNoFailureOfARequestFromBeforeItsEjection) {
  const Backend backend(some_spec(0));
  backend.state().eject(EjectionReason::consecutive, 2s, noon);
  AttemptResult earlier = failed;
  earlier.sent = noon - 1s;

  backend.record_outcome(earlier, noon + 2s);

  EXPECT_EQ(backend.state().failures_in_a_row(), 0u);
  EXPECT_FALSE(backend.state().avoided(noon + 2s));
  EXPECT_EQ(backend.stats().failed_responses_total(), 1u) << "it is counted";
}

TEST(BackendState, ForgetsFailuresWithAConnectionAfterRefusals) {
  BackendState state;
  state.failed(failed, noon);
  EXPECT_FALSE(state.connected()) << "an established connection is no success";
  state.connect_failed(noon + 1s);

  EXPECT_TRUE(state.connected());

  EXPECT_TRUE(state.serving());
  EXPECT_EQ(state.failures_in_a_row(), 0u);
  EXPECT_FALSE(state.connected());
  state.connect_failed(noon + 2s);
  EXPECT_FALSE(state.avoided(noon + 3s)) << "the first of a new series";
}

TEST(BackendState, IsReachedIfItAnswersOverAKeptConnection) {
  BackendState state;
  state.connect_failed(noon);
  state.begin_request(noon + 1s);

  EXPECT_FALSE(state.answered(noon - 1ms)) << "that request was sent before";
  EXPECT_TRUE(state.answered(noon + 1s));

  EXPECT_EQ(state.connect_failures(), 0u);
  EXPECT_TRUE(state.serving());
}

TEST(BackendState, IsAvoidedForOverloadAlthoughItIsReached) {
  BackendState state;
  state.overloaded(refused(30s), noon);
  state.connect_failed(noon + 1s);

  EXPECT_FALSE(state.answered(noon + 2s));

  EXPECT_EQ(state.connect_failures(), 0u);
  EXPECT_TRUE(state.avoided(noon + 29s));
}

TEST(BackendState, KeepsTheFaultOfTheLastConnection) {
  BackendState state;

  state.connect_failed(noon, Fault::tls_failed);
  state.begin_request(noon + 2s);  // the trial is not a failure

  EXPECT_EQ(state.details().connect_fault, Fault::tls_failed);
}

TEST(BackendState, DoublesTheTimeOfSilentTrials) {
  BackendState state;
  Instant now = noon + 2s;
  state.begin_silence(noon);

  for (const Duration wait : {4s, 8s, 16s, 30s, 30s}) {
    ASSERT_FALSE(state.avoided(now));
    state.begin_request(now);
    now += wait;
    EXPECT_TRUE(state.avoided(now - 1ms));
  }
  EXPECT_TRUE(state.end_silence());
  EXPECT_TRUE(state.serving());
}

}  // namespace
}  // namespace evenkeel::testing
