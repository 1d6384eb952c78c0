#include "evenkeel/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "evenkeel/base/rng.h"
#include "evenkeel/sim/presets.h"
#include "replay/report.h"

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Conversations: each turn repeats the ones before it, and they share a system prompt of one
/// block.
Trace some_trace(std::size_t requests, double per_second) {
  Rng rng(4);
  Trace trace;
  std::vector<TraceRow> conversations(40);
  std::uint64_t next_block = 10;
  double at = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    at += -std::log(1 - rng.unit()) / per_second;
    TraceRow& row = conversations[rng.below(40)];
    if (row.prompt_tokens > 20'000 || row.block_ids.empty()) {
      row = {.block_ids = {1}, .tenant = std::to_string(rng.below(5))};
      row.prompt_tokens = trace_block_tokens;
    }
    for (std::uint32_t blocks = 1 + rng.below(8); blocks > 0; --blocks) {
      row.block_ids.push_back(next_block++);
      row.prompt_tokens += trace_block_tokens;
    }
    row.output_tokens = 20 + rng.below(200);
    row.due = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(at));
    trace.rows.push_back(row);
  }
  return trace;
}

ReplayOptions some_options() { return {.engine = find_preset("reference")->engine, .backends = 4}; }

TEST(Replay, KnowsWhatAPromptTakesOnAnIdleEngine) {
  const EngineSpec& engine = find_preset("reference")->engine;

  EXPECT_NEAR(unloaded_prefill_seconds(engine, 1000), 0.016 + 0.045 + 1.3e-9 * 1000 * 500, 1e-9);
  EXPECT_NEAR(unloaded_prefill_seconds(engine, 10'000), 2 * 0.016 + 0.45 + 1.3e-9 * 5e7, 1e-9);
}

TEST(Replay, AnIdleEngineServesEveryRequestAtItsUnloadedSpeed) {
  Trace trace;
  for (int i = 0; i < 20; ++i) {
    trace.rows.push_back({.due = seconds(20 * i), .prompt_tokens = 8000, .output_tokens = 100});
  }
  const double prefill = unloaded_prefill_seconds(some_options().engine, 8000);

  for (const std::string& picker : picker_names()) {
    const ReplayRow row = replay(trace, some_options(), picker);

    EXPECT_EQ(row.requests, 18u) << picker;
    EXPECT_EQ(row.goodput_ratio, 1) << picker;
    EXPECT_NEAR(row.ttft_p99, prefill, 1e-6) << picker;
    EXPECT_NEAR(row.tpot_p50, 0.016 + 3e-5 + 8050 * 5.6e-8, 1e-5) << picker;
    EXPECT_NEAR(row.e2e_p50, row.ttft_p50 + 99 * row.tpot_p50, 1e-4) << picker;
    EXPECT_EQ(row.unfinished, 0u) << picker;
  }
}

TEST(Replay, TheSameOptionsGiveTheSameRow) {
  const Trace trace = some_trace(200, 6);

  const ReplayRow first = replay(trace, some_options(), "expected-time");
  const ReplayRow second = replay(trace, some_options(), "expected-time");

  EXPECT_EQ(first.ttft_p99, second.ttft_p99);
  EXPECT_EQ(first.e2e_p50, second.e2e_p50);
  EXPECT_EQ(first.hit_ratio, second.hit_ratio);
}

TEST(Replay, SessionsCostNoGoodputAndNoHits) {
  const Trace trace = some_trace(1500, 9.5);
  ReplayOptions options = some_options();
  const ReplayRow without = replay(trace, options, "expected-time");
  options.sessions = true;

  const ReplayRow with = replay(trace, options, "expected-time");

  EXPECT_GE(with.hit_ratio, 0.99 * without.hit_ratio);
  EXPECT_GE(with.goodput_ratio, without.goodput_ratio - 0.01);
}

TEST(Replay, ExpectedTimeMeetsItsTargetsMoreOftenThanTheOtherPickers) {
  const Trace trace = some_trace(1500, 9.5);
  const ReplayRow ours = replay(trace, some_options(), "expected-time");

  for (const auto picker : {"round-robin", "least-connections", "consistent-hash"}) {
    const ReplayRow other = replay(trace, some_options(), picker);
    EXPECT_LT(1 - ours.goodput_ratio, 0.6 * (1 - other.goodput_ratio)) << picker;
    EXPECT_LT(ours.slowdown_p99, 0.7 * other.slowdown_p99) << picker;
  }
  EXPECT_GT(ours.goodput_ratio, 0.9);
}

// A key made of the first block would send everything to one backend or scatter it.
TEST(Replay, ASharedSystemPromptDoesNotHideTheOtherPrefixes) {
  const Trace trace = some_trace(1000, 8);

  const ReplayRow ours = replay(trace, some_options(), "expected-time");
  const ReplayRow scattered = replay(trace, some_options(), "round-robin");

  EXPECT_GT(ours.hit_ratio, 1.3 * scattered.hit_ratio);
  EXPECT_LT(ours.imbalance, 1.3);
}

TEST(Replay, PrefixAffinityLooksPastTheSystemPrompt) {
  const Trace trace = some_trace(1000, 8);

  const ReplayRow ours = replay(trace, some_options(), "prefix-affinity");
  const ReplayRow scattered = replay(trace, some_options(), "least-connections");

  EXPECT_GT(ours.hit_ratio, 1.3 * scattered.hit_ratio);
  EXPECT_LT(ours.imbalance, 1.3);
}

TEST(Replay, ABackendThatSlowsDownGetsLessWork) {
  const Trace trace = some_trace(800, 6);
  ReplayOptions options = some_options();
  options.slowdowns = {{.backend = 0, .factor = 4, .at = seconds(20)}};

  const ReplayRow ours = replay(trace, options, "expected-time");
  const ReplayRow blind = replay(trace, options, "round-robin");

  EXPECT_LT(1 - ours.goodput_ratio, 0.3 * (1 - blind.goodput_ratio));
}

TEST(Replay, ABackendThatDoesNotExistSlowsNothing) {
  const Trace trace = some_trace(200, 6);
  ReplayOptions options = some_options();
  const ReplayRow plain = replay(trace, options, "round-robin");

  options.slowdowns = {{.backend = options.backends, .factor = 4, .at = seconds(1)}};

  EXPECT_EQ(replay(trace, options, "round-robin").goodput_ratio, plain.goodput_ratio);
}

TEST(Replay, SlowdownsTogetherHaveALimit) {
  const Trace trace = some_trace(200, 6);
  ReplayOptions options = some_options();
  options.slowdowns.assign(1, {.backend = 0, .factor = 1000, .at = seconds(1)});
  const ReplayRow once = replay(trace, options, "round-robin");

  options.slowdowns.assign(200, options.slowdowns.front());

  EXPECT_EQ(replay(trace, options, "round-robin").goodput_ratio, once.goodput_ratio);
}

TEST(Replay, FasterBackendsDoMore) {
  const Trace trace = some_trace(600, 6);
  ReplayOptions options = some_options();
  options.speeds = {2, 1};

  const ReplayRow ours = replay(trace, options, "expected-time");

  EXPECT_GT(ours.goodput_ratio, 0.95);
}

TEST(Replay, WithoutSeenFirstTokensItLosesLittle) {
  const Trace trace = some_trace(1000, 9);
  ReplayOptions options = some_options();
  const ReplayRow seen = replay(trace, options, "expected-time");

  for (const double ratio : {0.5, 1.0}) {
    options.unstreamed_ratio = ratio;
    const ReplayRow row = replay(trace, options, "expected-time");
    EXPECT_GT(row.goodput_ratio, seen.goodput_ratio - 0.03) << ratio;
    EXPECT_LT(row.ttft_p90, 1.5 * seen.ttft_p90) << ratio;
  }
}

TEST(Replay, SheddingKeepsAnOverloadedFleetUseful) {
  const Trace trace = some_trace(1500, 30);
  ReplayOptions options = some_options();
  const ReplayRow without = replay(trace, options, "expected-time");
  options.shed = 1;

  const ReplayRow with = replay(trace, options, "expected-time");

  EXPECT_EQ(without.shed, 0u);
  EXPECT_GT(with.shed, 0u);
  EXPECT_GT(with.goodput_ratio, without.goodput_ratio + 0.1);
  EXPECT_LT(with.ttft_p99, without.ttft_p99);
}

TEST(Replay, FindsTheFewestBackends) {
  const Trace trace = some_trace(500, 10);
  const auto enough =
      replay_with_fewest_backends(trace, some_options(), "least-connections", 0.95, 64);
  ASSERT_TRUE(enough);
  EXPECT_GE(enough->goodput_ratio, 0.95);
  ASSERT_GT(enough->backends, 1u);

  ReplayOptions fewer = some_options();
  fewer.backends = enough->backends - 1;
  EXPECT_LT(replay(trace, fewer, "least-connections").goodput_ratio, 0.95);
  EXPECT_FALSE(replay_with_fewest_backends(trace, some_options(), "round-robin", 0.99, 1));
}

/// Sends every request to backend 0, and notes what that has cached before.
class NotesCaches final : public ImmediateDispatcher {
 public:
  NotesCaches(RequestSink& sink, std::vector<std::uint32_t>& cached)
      : sink_(sink), cached_(cached) {}
  void arrived(ReplayedRequest& request, Instant) override {
    cached_.push_back(sink_.cached_tokens(request, 0));
    sink_.send(request, 0);
  }
  void first_token(ReplayedRequest&, Instant) override {}
  void finished(ReplayedRequest&, Instant) override {}
  void polled(std::uint32_t, const LoadSample&, Instant) override {}

 private:
  RequestSink& sink_;
  std::vector<std::uint32_t>& cached_;
};

TEST(Replay, ADispatcherOfTheCallersSeesWhatTheEnginesHaveCached) {
  Trace trace;
  for (int i = 0; i < 3; ++i) {
    trace.rows.push_back({.due = seconds(20 * i),
                          .prompt_tokens = 1500,  // two full blocks
                          .output_tokens = 2,
                          .block_ids = {1, 2, 3}});
  }
  trace.rows[2].block_ids = {1, 7, 3};
  std::vector<std::uint32_t> cached;

  const ReplayRow row =
      replay(trace, some_options(), "mine", [&](const ReplayOptions&, RequestSink& sink) {
        return std::make_unique<NotesCaches>(sink, cached);
      });

  EXPECT_THAT(cached, ::testing::ElementsAre(0, 1024, 512));
  EXPECT_EQ(row.picker, "mine");
  EXPECT_EQ(row.imbalance, 4);  // one of four backends did everything
}

TEST(Replay, SpreadsRowsWithEqualStampsUnlessTheyAreBursts) {
  Trace trace;
  trace.quantised = true;
  for (int i = 0; i < 60; ++i) {
    trace.rows.push_back({.due = seconds(3 * (i / 30)), .prompt_tokens = 8000, .output_tokens = 2});
  }
  ReplayOptions options = some_options();
  const ReplayRow spread = replay(trace, options, "round-robin");
  options.bursts = true;

  EXPECT_LT(spread.ttft_p50, 0.5 * replay(trace, options, "round-robin").ttft_p50);
}

TEST(Replay, LeavesOutWhatDoesNotFitAndCutsTheTrace) {
  Trace trace;
  for (int i = 0; i < 20; ++i) {
    trace.rows.push_back({.due = seconds(i), .prompt_tokens = 100, .output_tokens = 2});
  }
  trace.rows[3].prompt_tokens = 2'000'000;
  ReplayOptions options = some_options();
  options.max_time = seconds(10);

  const ReplayRow row = replay(trace, options, "round-robin");

  EXPECT_EQ(row.left_out, 1u);
  EXPECT_EQ(row.requests, 9u);
}

}  // namespace
}  // namespace evenkeel::testing
