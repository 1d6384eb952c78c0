#include "evenkeel/balance/load.h"

#include <gtest/gtest.h>

#include "balance/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(Load, NeverExceedsTheLimit) {
  Load load;

  const bool first = load.try_acquire(2);
  const bool second = load.try_acquire(2);
  const bool third = load.try_acquire(2);

  EXPECT_TRUE(first && second);
  EXPECT_FALSE(third);
  EXPECT_FALSE(load.has_room(2));
  EXPECT_EQ(load.in_flight(), 2u);
}

TEST(Load, HasAlwaysAFreeSlotWithoutALimit) {
  Load load;

  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(load.try_acquire(0));

  EXPECT_TRUE(load.has_room(0));
  EXPECT_EQ(load.in_flight(), 1000u);
}

TEST(Load, BacksOffTwiceAsLongEachTimeUpToTenSeconds) {
  Load load;
  Instant now = noon;

  for (const Duration wait : {1s, 2s, 4s, 8s, 10s, 10s}) {
    load.back_off(now);
    EXPECT_TRUE(load.in_backoff(now));
    EXPECT_TRUE(load.in_backoff(now + wait - 1ms));
    EXPECT_FALSE(load.in_backoff(now + wait));
    now += wait;
  }
}

TEST(Load, ManyFailuresAtOnceAreOneFailure) {
  Load load;

  for (int i = 0; i < 100; ++i) load.back_off(noon + i * 1ms);

  EXPECT_EQ(load.connect_failures(), 1u);
  EXPECT_FALSE(load.in_backoff(noon + 1s));
}

TEST(Load, OneSuccessResetsAllFailures) {
  Load load;
  load.back_off(noon);
  load.back_off(noon + 1s);

  const bool recovered = load.recover();

  EXPECT_TRUE(recovered);
  EXPECT_FALSE(load.recover());
  EXPECT_FALSE(load.needs_trial());
  EXPECT_FALSE(load.in_backoff(noon + 1s));
  load.back_off(noon + 2s);
  EXPECT_FALSE(load.in_backoff(noon + 3s));
}

TEST(Load, HasNoLatencyBeforeTheFirstResponse) {
  Load load;
  EXPECT_FALSE(load.recent_summary(noon).first_byte.median);

  for (int i = 0; i < 3; ++i) load.record_first_byte(100ms, noon);
  load.record_served(2s, noon);

  const RecentSummary recent = load.recent_summary(noon);
  EXPECT_NEAR(seconds_of(*recent.first_byte.median), 0.1, 0.01);
  EXPECT_NEAR(seconds_of(*recent.total.median), 2, 0.2);
  EXPECT_EQ(load.responses_total(), 3u);
  EXPECT_EQ(load.served_total(), 1u);
}

TEST(Load, CountsErrorsByFault) {
  Load load;

  load.count_error(Fault::connect_failed);
  load.count_error(Fault::connect_failed);
  load.count_error(Fault::backend_closed);
  load.count_failed_response();

  EXPECT_EQ(load.errors_total(Fault::connect_failed), 2u);
  EXPECT_EQ(load.errors_total(Fault::idle_timeout), 0u);
  EXPECT_EQ(load.failed_responses_total(), 1u);
  EXPECT_EQ(load.errors_total(), 4u);
}

TEST(Backend, OnTrialGetsNoOtherRequests) {
  Backend backend(some_spec(0));
  backend.connect_failed(noon);
  ASSERT_FALSE(backend.load().in_backoff(noon + 1s));

  const bool entered = backend.try_acquire(noon + 1s);

  EXPECT_TRUE(entered);
  EXPECT_TRUE(backend.load().in_backoff(noon + 2s));
  EXPECT_FALSE(backend.load().in_backoff(noon + 3s));
  backend.connected();
  EXPECT_FALSE(backend.load().in_backoff(noon + 2s));
  backend.release();
}

TEST(Backend, ThatAnswersOverAKeptConnectionIsNoLongerUnreachable) {
  Backend backend(some_spec(0));
  backend.connect_failed(noon);
  ASSERT_TRUE(backend.try_acquire(noon + 1s));

  backend.answered(noon - 1ms, noon + 1100ms);
  EXPECT_TRUE(backend.load().needs_trial()) << "that request was sent before";

  backend.answered(noon + 1s, noon + 1200ms);
  EXPECT_FALSE(backend.load().has_connect_failures());
  EXPECT_FALSE(backend.load().needs_trial());
  backend.connect_failed(noon + 2s);
  EXPECT_FALSE(backend.load().in_backoff(noon + 3s)) << "the first of a new series";
}

TEST(Backend, ThatAnswersOverAKeptConnectionKeepsItsFailuresAndItsPark) {
  constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};
  for (const AttemptResult& earlier : {failed, classify(429, 30s)}) {
    Backend backend(some_spec(0));
    backend.record_outcome(earlier, noon);
    backend.connect_failed(noon + 1s);

    backend.answered(noon + 2s, noon + 3s);

    EXPECT_FALSE(backend.load().has_connect_failures());
    EXPECT_TRUE(backend.load().needs_trial());
  }
}

TEST(Backend, KeepsTheFaultOfItsLastConnect) {
  const Backend backend(some_spec(0));

  backend.connect_failed(noon, Fault::tls_failed);
  EXPECT_EQ(backend.load().connect_fault(), Fault::tls_failed);

  ASSERT_TRUE(backend.try_acquire(noon + 2s));  // the trial is not a failure
  EXPECT_EQ(backend.load().connect_fault(), Fault::tls_failed);
}

TEST(Lease, IsReleasedWhenDropped) {
  auto backend = std::make_shared<Backend>(some_spec(0));
  ASSERT_TRUE(backend->try_acquire(noon));

  {
    Lease lease = Lease::adopt(backend);
    Lease moved = std::move(lease);
    EXPECT_FALSE(lease);
    EXPECT_EQ(moved.backend(), backend);
    EXPECT_EQ(backend->load().in_flight(), 1u);
  }

  EXPECT_EQ(backend->load().in_flight(), 0u);
  EXPECT_EQ(backend->load().picks_total(), 1u);
}

TEST(Lease, IsReleasedOnMoveAssignment) {
  auto one = std::make_shared<Backend>(some_spec(0));
  auto other = std::make_shared<Backend>(some_spec(1));
  ASSERT_TRUE(one->try_acquire(noon) && other->try_acquire(noon));
  Lease lease = Lease::adopt(one);

  lease = Lease::adopt(other);

  EXPECT_EQ(one->load().in_flight(), 0u);
  EXPECT_EQ(other->load().in_flight(), 1u);
}

TEST(Load, StaysParkedAsLongAsItsServerSaidWhateverItAnswersMeanwhile) {
  Load load;
  load.record_overloaded(classify(429, 20s), noon);

  load.record_overloaded(classify(429), noon + 1s);

  EXPECT_TRUE(load.parked(noon + 19s));
  EXPECT_FALSE(load.record_success(false, noon + 19s));
  EXPECT_TRUE(load.in_backoff(noon + 19s));
  EXPECT_FALSE(load.parked(noon + 20s));
}

}  // namespace
}  // namespace evenkeel::testing
