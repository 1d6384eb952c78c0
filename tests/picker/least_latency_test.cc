// sim/pool_simulation_test.cc tests this picker on a simulated pool.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

// Enough samples for full confidence.
void answers(const Backend& backend, Duration took) {
  for (int i = 0; i < 200; ++i) backend.stats().record_first_byte(took, noon);
}

TEST(LeastLatency, PrefersTheFasterBackendWhenAllAreIdle) {
  auto backends = some_backends(3);
  answers(*(*backends)[0], 300ms);
  answers(*(*backends)[1], 100ms);
  answers(*(*backends)[2], 200ms);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  const auto counts = count_picks(*picker, *backends, 100);

  EXPECT_EQ(counts[1], 100);
}

TEST(LeastLatency, SharesRequestsInFlightBySpeed) {
  auto backends = some_backends(2);
  answers(*(*backends)[0], 300ms);
  answers(*(*backends)[1], 100ms);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  for (int i = 0; i < 200; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_NEAR((*backends)[0]->slots().in_flight(), 55, 8);
  EXPECT_NEAR((*backends)[1]->slots().in_flight(), 145, 8);
}

TEST(LeastLatency, WarmsUpANewBackend) {
  auto backends = some_backends(4);
  for (std::size_t i = 0; i < 3; ++i) {
    answers(*(*backends)[i], 100ms);
    for (int n = 0; n < 25; ++n) (*backends)[i]->try_acquire(noon);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  for (int i = 0; i < 30; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  // Without the penalty the empty backend would get all 30; it has not responded once.
  EXPECT_GE((*backends)[3]->slots().in_flight(), 1u);
  EXPECT_LE((*backends)[3]->slots().in_flight(), 6u);
}

TEST(LeastLatency, WarmsUpARecoveredBackend) {
  auto backends = some_backends(4);
  for (std::size_t i = 0; i < 4; ++i) answers(*(*backends)[i], 100ms);
  for (std::size_t i = 0; i < 3; ++i) {
    for (int n = 0; n < 25; ++n) (*backends)[i]->try_acquire(noon);
  }
  (*backends)[3]->state().take_out(OutOfRotation::unhealthy);
  (*backends)[3]->put_back(OutOfRotation::unhealthy);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  for (int i = 0; i < 30; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_LE((*backends)[3]->slots().in_flight(), 6u);
}

TEST(LeastLatency, DiscountsASingleFastResponse) {
  auto backends = some_backends(2);
  answers(*(*backends)[0], 100ms);
  (*backends)[1]->stats().record_first_byte(1ms, noon);
  for (int n = 0; n < 3; ++n) {
    (*backends)[0]->try_acquire(noon);
    (*backends)[1]->try_acquire(noon);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  for (int i = 0; i < 60; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_LT((*backends)[1]->slots().in_flight(), 40u) << "by its latency it would have 65";
}

TEST(LeastLatency, RetriesABackendWithoutRecentSamples) {
  auto backends = some_backends(2);
  answers(*(*backends)[0], 100ms);
  answers(*(*backends)[1], 20s);
  for (int n = 0; n < 4; ++n) (*backends)[0]->try_acquire(noon);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);
  EXPECT_EQ(index_of(*backends, picker->pick({.now = noon})), 0u);

  // The fast backend has responded all the time.
  const Instant later = noon + 1min;
  (*backends)[0]->stats().record_first_byte(100ms, later);

  EXPECT_EQ(index_of(*backends, picker->pick({.now = later})), 1u);
}

TEST(LeastLatency, DoesNotPreferABackendThatFailsQuickly) {
  auto backends = some_backends(2);
  answers(*(*backends)[0], 100ms);
  answers(*(*backends)[1], 100ms);
  for (int i = 0; i < 20; ++i) (*backends)[1]->stats().record_failure(1ms, noon);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  const auto counts = count_picks(*picker, *backends, 100);

  EXPECT_EQ(counts[0], 100);
}

// One request at a time: picks, and records the time that each backend takes.
std::vector<int> one_at_a_time(Backends& backends, const std::vector<Duration>& takes, int requests,
                               Instant& now) {
  auto picker = make_picker(
      {.backends = std::make_shared<Backends>(backends), .choice = {.name = "least-latency"}}, 3);
  std::vector<int> counts(backends.size());
  for (int i = 0; i < requests; ++i) {
    const std::size_t index = index_of(backends, picker->pick({.now = now}));
    ++counts[index];
    now += takes[index];
    backends[index]->stats().record_first_byte(takes[index], now);
  }
  return counts;
}

TEST(LeastLatency, FindsTheFastestBackendWithOneRequestAtATime) {
  for (const Duration unit : {Duration(1ms), Duration(100ms), Duration(4s)}) {
    auto backends = some_backends(4);
    Instant now = noon;

    const auto counts = one_at_a_time(*backends, {8 * unit, 4 * unit, unit, 2 * unit}, 60, now);

    EXPECT_GE(counts[2], 45) << "unit " << seconds_of(unit);
    for (const int count : counts) EXPECT_GE(count, 1) << "every backend is tried";
  }
}

TEST(LeastLatency, TriesASlowBackendAgainLater) {
  auto backends = some_backends(2);
  Instant now = noon;
  const auto before = one_at_a_time(*backends, {2s, 1s}, 20, now);
  EXPECT_GE(before[1], 15);

  const auto after = one_at_a_time(*backends, {100ms, 1s}, 600, now);

  EXPECT_GE(after[0], 300) << "it became the faster one";
}

TEST(LeastLatency, DoesNotExploreABackendThatRefusesEveryRequest) {
  auto backends = some_backends(3);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);
  std::vector<int> counts(3);
  for (int i = 0; i < 60; ++i) {
    const std::size_t index = index_of(*backends, picker->pick({.now = noon}));
    ++counts[index];
    if (index == 0) {
      (*backends)[0]->stats().record_neutral(noon);  // 404, say
    } else {
      (*backends)[index]->stats().record_first_byte(10ms, noon);
    }
  }

  EXPECT_LE(counts[0], 30);
}

TEST(LeastLatency, CountsWeights) {
  auto backends = weighted_backends({1, 3});
  for (const auto& backend : *backends) answers(*backend, 100ms);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-latency"}}, 3);

  for (int i = 0; i < 200; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_NEAR((*backends)[1]->slots().in_flight(), 145, 8);
}

}  // namespace
}  // namespace evenkeel::testing
