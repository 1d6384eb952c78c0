#include "evenkeel/backend/recent_failures.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(RecentFailures, FadeWithinTwentySeconds) {
  RecentFailures failures;
  EXPECT_EQ(failures.value(noon), 0);

  failures.record(noon);
  failures.record(noon);

  EXPECT_NEAR(failures.value(noon), 2, 1e-6);
  EXPECT_NEAR(failures.value(noon + 10s), 1, 1e-6);
  EXPECT_EQ(failures.value(noon + 20s), 0);
  EXPECT_EQ(failures.value(noon + 1h), 0);
}

TEST(RecentFailures, AreBounded) {
  RecentFailures failures;

  for (int i = 0; i < 100'000; ++i) failures.record(noon);

  EXPECT_LE(failures.value(noon), 4096);
}

TEST(RecentFailures, AreForgottenOnRequest) {
  RecentFailures failures;
  for (int i = 0; i < 10; ++i) failures.record(noon);

  failures.forget();

  EXPECT_EQ(failures.value(noon), 0);
}

// The shares of four backends. Every second request on the first one fails at once; all others take
// `took`, ten a second.
std::vector<int> shares_with_a_flaky_backend(std::string_view picker_name, Duration took) {
  auto backends = some_backends(4);
  auto picker =
      make_picker({.backends = backends, .choice = {.name = std::string(picker_name)}}, 3);
  std::vector<int> counts(4);
  std::vector<std::pair<Instant, std::size_t>> running;
  for (int i = 0; i < 2000; ++i) {
    const Instant now = noon + i * 100ms;
    std::erase_if(running, [&](const auto& each) {
      if (each.first > now) return false;
      (*backends)[each.second]->slots().release();
      return true;
    });
    const BackendPtr* chosen = picker->pick({.now = now});
    const std::size_t index = index_of(*backends, chosen);
    ++counts[index];
    SharedBackend& shared = (*chosen)->shared();
    if (index == 0 && counts[0] % 2 == 0) {
      shared.stats.record_failure(1ms, now);
      (*chosen)->record_outcome({.outcome = AttemptOutcome::failed, .status = 500}, now);
      continue;
    }
    shared.slots.try_acquire();
    shared.stats.record_first_byte(took / 2, now);
    (*chosen)->record_outcome({}, now);
    running.emplace_back(now + took, index);
  }
  return counts;
}

TEST(RecentFailures, LeaveATrialToABackendInAStreakOfFailures) {
  auto backends = some_backends(2);
  const Backend& failing = *(*backends)[0];
  Instant now = noon;

  for (int i = 0; i < 4; ++i) {
    failing.record_outcome({.outcome = AttemptOutcome::failed, .status = 500}, now);
    EXPECT_EQ(failing.shared().failure_penalty(now), 0);
    now += 1s;
  }
  failing.record_outcome({}, now);

  EXPECT_GT(failing.shared().failure_penalty(now), 3) << "from its first success on";
}

TEST(RecentFailures, KeepAFlakyBackendFromGettingMoreThanItsShare) {
  for (const char* picker : {"least-connections", "queue-depth", "least-latency", "gpu"}) {
    for (const Duration took : {Duration(1s), Duration(4s)}) {
      const auto counts = shares_with_a_flaky_backend(picker, took);
      EXPECT_LE(counts[0], 500) << picker << ", " << seconds_of(took) << " s";
    }
  }
}

}  // namespace
}  // namespace evenkeel::testing
