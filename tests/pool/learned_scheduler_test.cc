// What a pool's scheduler has learned, continued by another process.
#include "evenkeel/scheduler/learned_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t all = 1'000'000;
constexpr std::uint32_t block_tokens = 256;

/// A pool of one process, whose requests are served at once.
class Process {
 public:
  explicit Process(std::size_t backends, std::size_t index_bytes = 4 << 20) {
    reload(backends, index_bytes);
  }
  ~Process() { pool_.reset(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void reload(std::size_t backends, std::size_t index_bytes) {
    PoolSpec spec = some_pool(backends, 0);
    spec.config.picker.name = "expected-time";
    spec.config.picker.index_bytes = index_bytes;
    state_ = PoolState::build(std::move(spec), state_.get());
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }

  PoolState& pool() { return *state_; }
  std::shared_ptr<const PoolState> shared() const { return state_; }
  const BackendPtr& backend(std::size_t index) { return state_->backends()[index]; }
  EngineState& engine(std::size_t index) { return backend(index)->signals().engine(); }
  LearnedScheduler learned(std::size_t max_prefixes = all) {
    return state_->scheduled()->learned(max_prefixes, Clock::now());
  }
  LearnedEngine learned_of(std::size_t index) { return learned().engines.at(backend(index)->id()); }
  std::size_t prefixes_of(std::size_t index) { return learned_of(index).prefixes.size(); }

  /// A prompt of so many blocks of a conversation. Returns where it went.
  std::size_t serve(std::uint64_t conversation, std::uint64_t blocks) {
    std::vector<std::uint64_t> prefix;
    for (std::uint64_t i = 0; i < blocks; ++i) prefix.push_back(mix(conversation * 1000 + i));
    const auto tokens = static_cast<std::uint32_t>(blocks * block_tokens);
    const RequestCost cost{.arrival = {.prompt_tokens = tokens,
                                       .prefix_blocks = prefix,
                                       .tokens_per_block = block_tokens}};
    Hint hint;
    hint.cost = &cost;
    auto task = pool_->acquire(hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    EXPECT_TRUE(lease.ok());
    // The scheduler's time never goes back: each request begins when the one before has ended.
    const Instant now = std::max(Clock::now(), end_);
    // Slower than an unknown one is taken to be, so that both have requests.
    const Instant first_token = now + static_cast<int>(blocks) * 40ms;
    end_ = first_token + 500ms;
    lease->placed()->first_token(first_token);
    lease->placed()->output(10, 12ms, first_token + 400ms);
    lease->placed()->finished({.output_tokens = 40, .prompt_tokens = tokens}, 40, end_);
    for (std::size_t i = 0; i < state_->backends().size(); ++i) {
      if (backend(i) == lease->backend()) return i;
    }
    return state_->backends().size();
  }

 private:
  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
  Instant end_{};
};

TEST(LearnedSchedulers, ContinueWithSpeedsAndPrefixes) {
  Process before(2);
  std::vector<std::size_t> places;
  for (std::uint64_t i = 0; i < 60; ++i) places.push_back(before.serve(i, 4 + i % 9));
  const LearnedScheduler learned = before.learned();
  ASSERT_EQ(learned.engines.size(), 2u);

  Process after(2);
  after.pool().scheduled()->restore(learned, Clock::now());

  const LearnedScheduler again = after.learned();
  EXPECT_EQ(again.traffic.output_lengths, learned.traffic.output_lengths);
  EXPECT_EQ(again.traffic.tokens_per_event, learned.traffic.tokens_per_event);
  EXPECT_EQ(again.traffic.mean_prefill, learned.traffic.mean_prefill);
  for (const auto& [id, engine] : learned.engines) {
    const LearnedEngine& restored = again.engines.at(id);
    EXPECT_GT(engine.prefill.samples, 10u);
    EXPECT_EQ(restored.prefill.coefficients, engine.prefill.coefficients);
    EXPECT_EQ(restored.step.coefficients, engine.step.coefficients);
    EXPECT_EQ(restored.finished, engine.finished);
    EXPECT_EQ(restored.prefixes, engine.prefixes);
    EXPECT_EQ(restored.tokens_per_block, engine.tokens_per_block);
  }
  for (std::uint64_t i = 0; i < 60; ++i)
    EXPECT_EQ(after.serve(i, 4 + i % 9), places[i]) << "conversation " << i;
}

TEST(LearnedSchedulers, WithoutItPromptsGoAstray) {
  Process before(2);
  std::vector<std::size_t> places;
  for (std::uint64_t i = 0; i < 60; ++i) places.push_back(before.serve(i, 4 + i % 9));
  Process after(2);
  int astray = 0;
  for (std::uint64_t i = 60; i-- > 0;) astray += after.serve(i, 4 + i % 9) != places[i] ? 1 : 0;
  EXPECT_GT(astray, 0) << "or the test above shows nothing";
}

TEST(LearnedSchedulers, AReloadKeepsThemWithAnotherIndexAndMoreBackendsThanHadRoom) {
  for (const auto& [backends, index_bytes] :
       {std::pair<std::size_t, std::size_t>{2, 8 << 20}, {300, 64 << 20}}) {
    Process process(2);
    std::vector<std::size_t> places;
    for (std::uint64_t i = 0; i < 60; ++i) places.push_back(process.serve(i, 4 + i % 9));
    const LearnedScheduler before = process.learned();

    process.reload(backends, index_bytes);

    const LearnedScheduler after = process.learned();
    EXPECT_EQ(after.traffic.output_lengths, before.traffic.output_lengths);
    EXPECT_EQ(after.engines.size(), backends);
    for (const auto& [id, engine] : before.engines) {
      EXPECT_EQ(after.engines.at(id).prefill.coefficients, engine.prefill.coefficients);
      EXPECT_EQ(after.engines.at(id).prefixes, engine.prefixes);
    }
    if (backends > 2) continue;  // with many idle ones, a prompt may be computed again elsewhere
    for (std::uint64_t i = 0; i < 60; ++i)
      EXPECT_EQ(process.serve(i, 4 + i % 9), places[i]) << "conversation " << i;
  }
}

TEST(LearnedSchedulers, AnIndexIsReleasedOnceAnotherHasTakenItsPlace) {
  Process process(2, 8 << 20);
  for (std::uint64_t i = 0; i < 20; ++i) process.serve(i, 4);
  const auto former = process.shared();
  process.reload(2, 8 << 20);
  EXPECT_EQ(former->scheduled()->release_index(process.pool().scheduled().get()), nullptr)
      << "it is still in use";
  EXPECT_GT(former->scheduled()->stats().index_bytes, 1u << 20);

  process.reload(2, 4 << 20);
  EXPECT_NE(former->scheduled()->release_index(process.pool().scheduled().get()), nullptr);
  EXPECT_LT(former->scheduled()->stats().index_bytes, 1u << 18);
  EXPECT_GT(process.prefixes_of(0) + process.prefixes_of(1), 0u);
}

TEST(LearnedSchedulers, RequestsAreServedWithoutTheReleasedIndex) {
  Process process(2, 8 << 20);
  for (std::uint64_t i = 0; i < 20; ++i) process.serve(i, 4);
  EXPECT_NE(process.pool().scheduled()->release_index(nullptr), nullptr)
      << "the pool is no longer in the file";
  EXPECT_EQ(process.prefixes_of(0) + process.prefixes_of(1), 0u);
  // More blocks than the smallest index holds.
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(process.serve(i, 4 + i % 9), 2u);
}

TEST(LearnedSchedulers, AReloadLeavesNothingToConfirm) {
  Process process(2);
  process.engine(0).report({.start_time = 1000, .work_done = 10});
  for (std::uint64_t i = 0; i < 40; ++i) process.serve(i, 8);
  const std::size_t known = process.prefixes_of(0);
  ASSERT_GT(known, 0u);

  process.reload(2, 8 << 20);

  EXPECT_FALSE(process.engine(0).is_unconfirmed());
  process.pool().tick(Clock::now() + 1h);
  EXPECT_EQ(process.prefixes_of(0), known);
}

TEST(LearnedSchedulers, ABackendThatIsNewIsTakenForSlowerThanTheOthersAndOneThatIsGoneForNothing) {
  Process before(2);
  for (std::uint64_t i = 0; i < 100; ++i) before.serve(i, 4 + i % 9);
  LearnedScheduler learned = before.learned();
  auto gone = learned.engines.extract(before.backend(1)->id());
  gone.key() = "10.9.9.9:8000";
  learned.engines.insert(std::move(gone));

  Process after(2);
  after.pool().scheduled()->restore(learned, Clock::now());

  const double known = after.learned_of(0).prefill.coefficients[0];
  ASSERT_GT(after.learned_of(0).prefill.samples, 20u);
  EXPECT_EQ(known, before.learned_of(0).prefill.coefficients[0]);
  EXPECT_NEAR(after.learned_of(1).prefill.coefficients[0], 1.5 * known, 1e-9);
  EXPECT_EQ(after.prefixes_of(1), 0u);
}

TEST(LearnedSchedulers, TheNewestPrefixesFitASmallerIndexAndASmallerFile) {
  Process before(1);
  for (std::uint64_t i = 0; i < 200; ++i) before.serve(i, 40);
  const std::vector<std::uint64_t> blocks = before.learned_of(0).prefixes;
  EXPECT_EQ(before.learned(100).engines.at(before.backend(0)->id()).prefixes,
            std::vector(blocks.begin(), blocks.begin() + 100));

  Process after(1, 1 << 18);
  after.pool().scheduled()->restore(before.learned(), Clock::now());

  const std::vector<std::uint64_t> kept = after.learned_of(0).prefixes;
  ASSERT_GT(kept.size(), 20u);
  ASSERT_LT(kept.size(), blocks.size());
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), blocks.begin()));
}

TEST(LearnedSchedulers, AnEngineThatHasRestartedHasNothingInItsCaches) {
  for (const bool restarted : {false, true}) {
    Process before(1);
    before.engine(0).report({.start_time = 1000});
    before.pool().tick(Clock::now());
    for (std::uint64_t i = 0; i < 20; ++i) before.serve(i, 8);
    const LearnedEngine learned = before.learned_of(0);
    ASSERT_EQ(learned.run.start_time, 1000.0);
    ASSERT_EQ(learned.prefixes.size(), 160u);

    Process after(1);
    after.pool().scheduled()->restore(before.learned(), Clock::now());
    after.pool().tick(Clock::now());
    EXPECT_EQ(after.prefixes_of(0), 160u) << "nothing is known against it";
    after.engine(0).report({.start_time = restarted ? 1010.0 : 1000.0});
    after.pool().tick(Clock::now());
    after.pool().tick(Clock::now() + 1h);

    EXPECT_EQ(after.prefixes_of(0), restarted ? 0u : 160u);
    EXPECT_EQ(after.learned_of(0).prefill.coefficients, learned.prefill.coefficients);
  }
}

TEST(LearnedSchedulers, AnEngineThatDoesNotSayWhetherItHasRestartedIsNotBelievedForLong) {
  Process before(1);
  before.engine(0).report({.start_time = 1000});
  before.serve(1, 8);
  Process after(1);
  after.pool().scheduled()->restore(before.learned(), Clock::now());

  after.engine(0).report({.work_done = 5});
  after.pool().tick(Clock::now() + 25s);
  EXPECT_EQ(after.prefixes_of(0), 8u);
  after.pool().tick(Clock::now() + 35s);

  EXPECT_EQ(after.prefixes_of(0), 0u);
}

TEST(LearnedSchedulers, ABackendThatDoesNotServeIsForgotten) {
  Process before(2);
  for (std::uint64_t i = 0; i < 40; ++i) before.serve(i, 8);
  Process after(2);
  after.pool().scheduled()->restore(before.learned(), Clock::now());
  after.backend(0)->state().take_out(OutOfRotation::unhealthy);

  after.pool().scheduled()->forget_caches_of_absent();

  EXPECT_EQ(after.prefixes_of(0), 0u);
  EXPECT_GT(after.prefixes_of(1), 0u);
}

TEST(LearnedSchedulers, CachesGrowOldSoonerThanSpeeds) {
  LearnedEngine known{.finished = 7,
                      .run = {.start_time = 1000},
                      .adapters = {{.name = 5, .age = 2}},
                      .prefixes = {1, 2}};
  known.prefill.samples = 30;
  LearnedEngine silent = known;
  silent.run = {.work_done = 100};
  const auto after = [](LearnedEngine learned, Duration passed) {
    age(learned, passed);
    return learned;
  };

  EXPECT_EQ(after(known, 3s).adapters[0].age, 5);
  EXPECT_EQ(after(known, 59min).prefixes.size(), 2u);
  EXPECT_EQ(after(known, 61min).prefixes.size(), 0u);
  EXPECT_EQ(after(known, 61min).run, EngineRun{});
  EXPECT_EQ(after(silent, 59s).prefixes.size(), 2u);
  EXPECT_EQ(after(silent, 61s).prefixes.size(), 0u);
  EXPECT_EQ(after(silent, 61s).adapters.size(), 0u);
  EXPECT_EQ(after(known, 23h).prefill.samples, 30u);
  EXPECT_EQ(after(known, 25h), LearnedEngine{});
  EXPECT_EQ(after(known, -1s), LearnedEngine{});
}

/// Numbers that a file may have, and no process writes.
TEST(LearnedSchedulers, AnyNumbersAreSurvived) {
  Process before(1);
  for (std::uint64_t i = 0; i < 30; ++i) before.serve(i, 8);
  const LearnedScheduler good = before.learned();
  Rng rng(5);
  constexpr double forged[] = {NAN, HUGE_VAL, -HUGE_VAL, -1, 0, 1e-300, 1e300, 1e18, 3};
  const auto any = [&] { return forged[rng.below(std::size(forged))]; };
  for (int round = 0; round < 300; ++round) {
    LearnedScheduler bad = good;
    LearnedEngine& engine = bad.engines.begin()->second;
    LearnedTraffic& traffic = bad.traffic;
    double* const fields[] = {&engine.index_capacity,
                              &engine.tokens_per_block,
                              &engine.confirms_hits,
                              &engine.streams,
                              &engine.has_blocks,
                              &engine.mean_prefill,
                              &engine.mean_context,
                              &engine.load_seconds.emplace(1),
                              &engine.step.weight,
                              &engine.step.coefficients[0],
                              &engine.prefill.max_variance[1],
                              &engine.step.covariance[2][2],
                              &traffic.mean_prefill,
                              &traffic.tokens_per_event,
                              &traffic.cached_found,
                              &traffic.cached_possible,
                              &traffic.output_lengths[3],
                              &traffic.output_classes[0].mean};
    for (int i = 0; i < 4; ++i) *fields[rng.below(std::size(fields))] = any();
    if (rng.below(3) == 0) engine.kv_tokens = rng();
    if (rng.below(3) == 0) engine.step_tokens = rng.below(2) == 0 ? ~0u : 1;
    if (rng.below(3) == 0) engine.finished = ~std::uint64_t{0};
    for (int i = 0; i < 100; ++i) engine.adapters.push_back({.name = rng.below(50), .age = any()});
    engine.prefixes.assign(200'000, 7);

    Process after(1);
    after.pool().scheduled()->restore(bad, Clock::now());
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(after.serve(i, 8), 0u);
    const auto forecast = after.pool().scheduled()->forecast(*after.backend(0), Clock::now());
    EXPECT_GE(forecast->wait, 0s);
    const LearnedEngine restored = after.learned_of(0);
    EXPECT_TRUE(std::isfinite(restored.prefill.coefficients[0]));
    EXPECT_TRUE(std::isfinite(restored.step.coefficients[0]));
    EXPECT_TRUE(std::isfinite(restored.index_capacity));
    EXPECT_LE(restored.streams, 1);
  }
}

TEST(LearnedSchedulers, AreCopiedWhileRequestsAreServed) {
  Process process(4);
  for (std::uint64_t i = 0; i < 500; ++i) process.serve(i, 30);
  std::atomic<bool> ends{false};
  std::size_t copies = 0;
  std::size_t empty = 0;
  std::thread copying([&] {
    while (!ends.load()) {
      std::size_t prefixes = 0;
      for (const auto& [id, engine] : process.learned().engines) prefixes += engine.prefixes.size();
      if (prefixes == 0) ++empty;
      ++copies;
    }
  });
  const Instant end = Clock::now() + 300ms;
  for (std::uint64_t i = 0; Clock::now() < end || i < 200; ++i) process.serve(i % 700, 30);
  ends = true;
  copying.join();
  EXPECT_GT(copies, 0u);
  EXPECT_EQ(empty, 0u);
}

}  // namespace
}  // namespace evenkeel::testing
