// What holds for every request, whatever comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant noon{std::chrono::hours(12)};
constexpr Duration tick = milliseconds(10);
constexpr double seconds_per_token = 1e-4;

struct Request {
  Arrival arrival;
  Instant arrived;
  std::optional<Instant> decided;
  std::uint32_t backend = Scheduler::no_backend;
  Scheduler::Ticket ticket = 0;
};

/// Engines that compute prompts one after the other, and the scheduler in front of them.
class Engines {
 public:
  Engines(std::uint32_t count, double shed_factor)
      : scheduler_({.slots = count,
                    .config = {.slo = {.ttft = seconds(2), .tpot = milliseconds(100)},
                               .shed = shed_factor,
                               .index_bytes = 1 << 20}}),
        queues_(count),
        free_at_(count, noon) {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      scheduler_.add_backend(slot, {.identity = slot + 1});
    }
  }

  void arrive(const Arrival& arrival) {
    requests.push_back({.arrival = arrival, .arrived = now});
    const Scheduler::Ticket ticket = scheduler_.arrive(arrival, now);
    requests.back().ticket = ticket;
    numbers_[ticket] = requests.size() - 1;
  }
  /// The next tick. Responses end with their first tokens.
  void go_on() {
    now += tick;
    for (auto& queue : queues_) {
      for (; !queue.empty() && queue.front().done_at <= now; queue.pop_front()) {
        const Scheduler::Ticket ticket = requests[queue.front().number].ticket;
        scheduler_.first_token(ticket, now);
        scheduler_.finished(ticket, {.output_tokens = 1}, now);
      }
    }
    for (const auto& placement : scheduler_.place(now)) {
      Request& request = requests[numbers_[placement.ticket]];
      request.decided = now;
      request.backend = placement.backend;
      if (placement.backend == Scheduler::no_backend) continue;
      Instant& free_at = free_at_[placement.backend];
      free_at = std::max(free_at, now) +
                std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
                    request.arrival.prompt_tokens * seconds_per_token));
      queues_[placement.backend].push_back({numbers_[placement.ticket], free_at});
    }
  }
  std::size_t waiting() const { return scheduler_.waiting(); }

  Instant now = noon;
  std::deque<Request> requests;

 private:
  struct Prompt {
    std::uint64_t number;
    Instant done_at;
  };
  Scheduler scheduler_;
  std::vector<std::deque<Prompt>> queues_;
  std::vector<Instant> free_at_;
  std::map<Scheduler::Ticket, std::uint64_t> numbers_;
};

TEST(SchedulerProperty, EveryRequestIsPlacedOrRefusedByItsDeadline) {
  constexpr std::array priorities = {Priority::interactive, Priority::standard, Priority::batch};
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Engines engines(3, 1);
    Rng rng(seed);

    // Between half and twice what the engines can do.
    for (int step = 0; step < 6000; ++step) {
      const double load = 0.5 + 1.5 * (step / 1000 % 2);
      if (rng.unit() < 0.1 * load) {
        engines.arrive({.prompt_tokens = 100 + rng.below(rng.below(4) == 0 ? 18'000 : 2000),
                        .priority = priorities[rng.below(3)],
                        .tenant = rng.below(7),
                        .tenant_weight = 1.0 + rng.below(4)});
      }
      engines.go_on();
    }
    for (int step = 0; step < 2000; ++step) engines.go_on();

    EXPECT_EQ(engines.waiting(), 0u);
    std::size_t refused = 0;
    for (const Request& request : engines.requests) {
      ASSERT_TRUE(request.decided);
      // Twice an unloaded prefill is the least target; this one is computed at half the prior.
      const double prefill = 2.5 * request.arrival.prompt_tokens * seconds_per_token;
      const double patience = request.arrival.priority == Priority::batch ? 4 : 1;
      const double deadline = patience * std::max(2.0, 2 * prefill);
      EXPECT_LE(seconds_of(*request.decided - request.arrived), deadline + seconds_of(2 * tick));
      refused += request.backend == Scheduler::no_backend ? 1 : 0;
    }
    EXPECT_GT(refused, 0u);
    EXPECT_LT(refused, engines.requests.size() / 2);
  }
}

TEST(SchedulerProperty, LongPromptsAreServedUnderAStreamOfShortOnesWithoutARefusal) {
  Engines engines(2, 0);
  Rng rng(4);

  for (int step = 0; step < 6000; ++step) {  // the short ones alone are all that engines can do
    if (rng.unit() < 0.24) engines.arrive({.prompt_tokens = 100 + rng.below(1500)});
    if (step % 500 == 0) engines.arrive({.prompt_tokens = 5000});
    engines.go_on();
  }

  for (const Request& request : engines.requests) {
    if (request.arrived > engines.now - seconds(12)) continue;
    ASSERT_TRUE(request.decided) << request.arrival.prompt_tokens;
    EXPECT_LT(*request.decided - request.arrived, seconds(12));
  }
}

// The bound of fair queueing: while all wait, none gets ahead by more than a bucket and a prompt.
TEST(SchedulerProperty, TenantsThatWaitGetTheirWeightsUpToAPrompt) {
  constexpr std::uint32_t tenants = 6;
  constexpr std::uint32_t largest = 8000;
  Engines engines(2, 0);
  Rng rng(5);
  std::array<std::uint32_t, tenants> waiting{};
  std::array<double, tenants> served{};  // seconds by weight
  const auto weight_of = [](std::uint64_t tenant) { return 1.0 + static_cast<double>(tenant % 3); };
  std::size_t counted = 0;

  for (int step = 0; step < 6000; ++step) {
    for (std::uint32_t tenant = 0; tenant < tenants; ++tenant) {
      for (; waiting[tenant] < 6; ++waiting[tenant]) {
        engines.arrive({.prompt_tokens = 200 + rng.below((tenant + 1) * largest / tenants),
                        .tenant = tenant + 1,
                        .tenant_weight = weight_of(tenant)});
      }
    }
    engines.go_on();
    for (const Request& request : engines.requests) {
      if (!request.decided || *request.decided != engines.now) continue;
      const std::uint64_t tenant = request.arrival.tenant - 1;
      --waiting[tenant];
      ++counted;
      if (step >= 1000) {  // the speed is known
        served[tenant] += request.arrival.prompt_tokens * seconds_per_token / weight_of(tenant);
      }
    }
  }

  const auto [least, most] = std::minmax_element(served.begin(), served.end());
  EXPECT_GT(*least, 4) << counted;
  EXPECT_LT(*most - *least, 0.5 + 2 * largest * seconds_per_token);
}

}  // namespace
}  // namespace evenkeel::testing
