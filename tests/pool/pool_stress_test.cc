// Several workers, more requests than slots, clients that leave at any moment, and a backend that
// fails and recovers.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "picker/every_picker.h"
#include "pool/versioned_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr int workers = 4;
constexpr int requests_per_worker = 5'000;
constexpr std::size_t clients_per_worker = 24;
constexpr std::size_t backends = 3;
constexpr std::uint32_t limit = 7;

// The counts as the backends themselves would have them.
struct Servers {
  std::atomic<std::uint32_t> inside[backends] = {};
  std::atomic<std::uint32_t> max{0};
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> refused{0};

  std::size_t index_of(const PoolState& state, const BackendPtr& backend) const {
    for (std::size_t i = 0; i < backends; ++i) {
      if (state.backends()[i] == backend) return i;
    }
    return backends;
  }
};

// A request inside a backend.
class Visit {
 public:
  Visit(Servers& servers, std::size_t index) : servers_(servers), index_(index) {
    const std::uint32_t now = servers_.inside[index_].fetch_add(1) + 1;
    std::uint32_t max = servers_.max.load();
    while (now > max && !servers_.max.compare_exchange_weak(max, now)) {
    }
  }
  Visit(const Visit&) = delete;
  ~Visit() { servers_.inside[index_].fetch_sub(1); }

 private:
  Servers& servers_;
  std::size_t index_;
};

Task<void> request(Pool& pool, Loop& loop, Servers& servers, Hint hint, Instant deadline,
                   std::uint32_t turns) {
  auto lease = co_await pool.acquire(hint, deadline);
  if (!lease) {
    servers.refused.fetch_add(1);
    co_return;
  }
  Visit visit(servers, servers.index_of(pool.state(), lease->backend()));
  for (std::uint32_t turn = 0; turn < turns; ++turn) co_await loop.yield();
  servers.served.fetch_add(1);
}

Task<void> drive(Pool& pool, Loop& loop, Servers& servers, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Task<void>> clients(clients_per_worker);
  int begun = 0;
  while (begun < requests_per_worker) {
    for (auto& client : clients) {
      const bool leaves = rng.below(16) == 0;
      if (client.valid() && !client.ready() && !leaves) continue;
      Hint hint{.key = rng.below(50)};
      if (rng.below(4) == 0) hint.excluded.add(pool.state().backends()[rng.below(backends)].get());
      hint.subset = static_cast<std::uint32_t>(rng.below(3));  // 0: none
      const Instant deadline = rng.below(8) == 0 ? loop.now() + 1ms : never;
      client.drop();
      client = request(pool, loop, servers, hint, deadline, rng.below(4));
      ++begun;
    }
    if (rng.below(50) == 0) pool.state().backends()[0]->state().connect_failed(loop.now());
    if (rng.below(20) == 0) pool.state().backends()[0]->connected();
    co_await loop.yield();
  }
  // The remaining requests are served: none waits for ever.
  for (auto& client : clients) {
    pool.state().backends()[0]->connected();
    co_await client;
  }
}

class PoolStress : public ::testing::TestWithParam<std::string_view> {};

TEST_P(PoolStress, ExceedsNoLimitAndLeavesNothingBehind) {
  PoolSpec spec = versioned_pool(backends, 1, limit, {.size = 60});
  spec.config.picker.name = GetParam();
  auto state = PoolState::build(spec);
  Servers servers;
  std::atomic<int> finished{0};

  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      Loop loop;
      Pool pool(state, loop, static_cast<std::uint64_t>(worker));
      auto driver = drive(pool, loop, servers, static_cast<std::uint64_t>(worker) + 100);
      if (loop.run_until([&] { return driver.ready(); }, Clock::now() + 60s)) ++finished;
    });
  }
  for (auto& thread : threads) thread.join();

  EXPECT_EQ(finished.load(), workers) << "a request waited for ever";
  EXPECT_LE(servers.max.load(), limit);
  EXPECT_EQ(servers.max.load(), limit) << "the pool was never full: the test shows nothing";
  EXPECT_GT(servers.served.load(), 0u);
  EXPECT_EQ(state->queue().waiting, 0u);
  EXPECT_EQ(state->in_flight(), 0u);
  for (const auto& backend : state->backends()) EXPECT_EQ(backend->slots().in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, PoolStress, every_picker(), picker_test_name);

}  // namespace
}  // namespace evenkeel::testing
