// Each rule of another router on cases that are computed by hand.
#include "bench/rivals/rivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/rivals/shadow_index.h"
#include "evenkeel/sim/presets.h"

namespace evenkeel::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr Instant start{std::chrono::hours(1)};
constexpr std::uint32_t nowhere = ~0u;

std::vector<std::uint64_t> blocks(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// The first `shared` blocks of one prompt, then others.
std::vector<std::uint64_t> branch(std::vector<std::uint64_t> prompt, std::size_t shared,
                                  std::uint64_t first_other) {
  std::iota(prompt.begin() + static_cast<std::ptrdiff_t>(shared), prompt.end(), first_other);
  return prompt;
}

ReplayOptions fleet_of(std::uint32_t backends) {
  return {.engine = find_preset("reference-large-kv")->engine, .backends = backends, .seed = 1};
}

/// A rule, and engines of which only the caches are real.
class Router final : private RequestSink {
 public:
  explicit Router(std::string_view rule, ReplayOptions options = fleet_of(2))
      : options_(std::move(options)), rule_(find_rival(rule)->make(options_, *this)) {}

  void set_cached(std::uint32_t backend, std::uint32_t tokens) { cached_[backend] = tokens; }
  void report(std::uint32_t backend, double waiting, double kv, double running = 0) {
    rule_->polled(backend, {.running = running, .waiting = waiting, .kv_cache_ratio = kv}, now);
  }
  ReplayedRequest& arrive(std::uint32_t tokens, std::vector<std::uint64_t> prompt = {}) {
    ReplayedRequest& request = requests_.emplace_back();
    request.prompt_tokens = tokens;
    request.blocks = std::move(prompt);
    request.backend = nowhere;
    rule_->arrived(request, now);
    return request;
  }
  /// Where a prompt of full blocks is sent.
  std::uint32_t place(std::vector<std::uint64_t> prompt) {
    const auto tokens = static_cast<std::uint32_t>(prompt.size()) * trace_block_tokens;
    return arrive(tokens, std::move(prompt)).backend;
  }
  void begin(ReplayedRequest& request) {
    rule_->first_token(request, now);
    rule_->decide(now);
  }

  Instant now = start;
  std::vector<std::uint32_t> sent_tokens;

 private:
  void send(ReplayedRequest& request, std::uint32_t backend) override {
    request.backend = backend;
    request.sent_at = now;
    sent_tokens.push_back(request.prompt_tokens);
  }
  void refuse(ReplayedRequest&) override {}
  std::uint32_t cached_tokens(const ReplayedRequest&, std::uint32_t backend) const override {
    return cached_[backend];
  }

  ReplayOptions options_;
  std::array<std::uint32_t, 8> cached_{};
  std::list<ReplayedRequest> requests_;
  std::unique_ptr<Dispatcher> rule_;
};

TEST(ShadowIndex, ForgetsTheEndOfTheLeastRecentlyUsedPrompt) {
  ShadowIndex index(2, 6);
  index.add(0, blocks(10, 4));
  index.add(0, blocks(20, 3));

  EXPECT_EQ(index.match(0, blocks(10, 4)), 3u);
  EXPECT_EQ(index.match(0, blocks(20, 3)), 3u);
  EXPECT_EQ(index.match(1, blocks(10, 4)), 0u);
  EXPECT_EQ(index.blocks_of(0), 6u);
}

TEST(TwoChoices, TakesTheOneWithFewerInFlight) {
  Router router("p2c");
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t first = router.arrive(100).backend;
    EXPECT_EQ(router.arrive(100).backend, 1 - first);
  }
}

// Two backends only: of three, it never compares all.
TEST(TwoChoices, DoesNotAlwaysFindTheLeastLoadedOfThree) {
  Router router("p2c", fleet_of(3));
  std::array<int, 3> counts{};
  int missed = 0;
  for (int i = 0; i < 300; ++i) {
    const int least = *std::min_element(counts.begin(), counts.end());
    int& chosen = counts[router.arrive(100).backend];
    if (chosen > least) ++missed;
    ++chosen;
  }
  EXPECT_GT(missed, 10);
  EXPECT_LT(missed, 150);
}

// Queue 2, KV 2, prefix 3.
TEST(Gaie, WeighsQueueAndCacheAndPrefix) {
  Router router("gaie");
  const auto known = blocks(1, 4);
  router.report(0, 5, 0.9);
  router.report(1, 0, 0);
  ASSERT_EQ(router.place(known), 1u);  // 0 + 0.2 + 0 < 2 + 2 + 0

  router.report(0, 0, 0);
  router.report(1, 4, 0.2);
  EXPECT_EQ(router.place(known), 1u);                  // 2 + 2 + 0 < 0 + 1.6 + 3
  EXPECT_EQ(router.place(branch(known, 3, 100)), 0u);  // 2 + 2 + 0 > 0 + 1.6 + 2.25
}

// 2 for the backend that has waited longest for a prompt that no backend has, 1 for the next of
// three.
TEST(LlmdBlend, SpreadsUnknownPrompts) {
  Router router("llmd-blend", fleet_of(3));
  EXPECT_EQ(router.place(blocks(10, 2)), 0u);
  EXPECT_EQ(router.place(blocks(20, 2)), 1u);
  EXPECT_EQ(router.place(blocks(30, 2)), 2u);

  router.report(0, 0, 0.4);
  EXPECT_EQ(router.place(blocks(40, 2)), 0u);  // 2 + 1.2 + 2 > 2 + 2 + 1
  router.report(1, 0, 0.6);
  EXPECT_EQ(router.place(blocks(50, 2)), 2u);  // 2 + 0.8 + 2 < 2 + 2 + 1
}

TEST(LlmdSticky, StaysWhereMostOfThePromptIs) {
  Router router("llmd-sticky");
  const auto known = blocks(1, 10);
  const std::uint32_t warm = router.place(known);

  EXPECT_EQ(router.place(branch(known, 8, 100)), warm);      // 0.8 of it, whatever is in flight
  EXPECT_EQ(router.place(branch(known, 7, 200)), 1 - warm);  // 6144 + 1536 > 0 + 5120
}

TEST(LlmdSticky, CountsTokensUntilTheFirstOneOfTheAnswer) {
  Router router("llmd-sticky");
  const auto known = blocks(1, 10);
  ReplayedRequest& first = router.arrive(5120, known);
  router.begin(first);

  EXPECT_EQ(router.place(branch(known, 7, 200)), first.backend);  // 0 + 1536 < 0 + 5120
}

// 14 s at 20 480 tokens a second are 286 720.
TEST(LlmdSticky, LeavesASaturatedBackend) {
  for (const auto& [tokens, leaves] : {std::pair{286'700u, false}, std::pair{287'000u, true}}) {
    Router router("llmd-sticky");
    const auto known = blocks(1, 560);
    const std::uint32_t loaded = router.arrive(tokens, known).backend;

    EXPECT_EQ(router.place(blocks(1, 10)) == loaded, !leaves) << tokens;
  }
}

TEST(SglangCacheAware, FollowsAMatchOfMoreThanThreeTenths) {
  Router router("sglang");
  const auto known = blocks(1, 10);
  const std::uint32_t warm = router.place(known);

  EXPECT_EQ(router.place(branch(known, 4, 100)), warm);
  EXPECT_EQ(router.place(branch(known, 3, 200)), 1 - warm);  // to the smaller tree
}

TEST(SglangCacheAware, TakesTheShortestQueueWhenTheyDifferByMoreThan64) {
  Router router("sglang");
  const auto known = blocks(1, 10);
  const std::uint32_t warm = router.place(known);
  for (int i = 1; i < 65; ++i) ASSERT_EQ(router.place(known), warm);

  EXPECT_EQ(router.place(known), 1 - warm);      // 65 - 0 > 64
  EXPECT_EQ(router.place(known) == warm, true);  // 65 - 1: no more
}

// Both score 2 for the free KV cache.
TEST(PrequalRs, DividesTheWeightOfAPrefixByItsHeat) {
  Router router("prequal-rs");
  const auto known = blocks(1, 4);
  ASSERT_EQ(router.place(known), 0u);  // cold: longest unused first

  // Half of the arrivals would be an even share; this prefix has all of them, and one holder.
  EXPECT_EQ(router.place(known), 1u);  // 3 / 2 + 0 (one prefill of its own) < 0 + 2
}

// The loads are smoothed over 5 s: after 50 s they are what was reported.
TEST(PrequalRs, AvoidsABackendAboveOneAndAHalfTimesTheMeanLoad) {
  Router router("prequal-rs");
  const auto known = blocks(1, 4);
  ReplayedRequest& first = router.arrive(2048, known);
  for (std::uint64_t i = 1; i < 9; ++i) router.begin(router.arrive(512, {1000 * i}));
  router.begin(first);
  router.now += std::chrono::seconds(50);

  router.report(0, 0, 0, 6);
  router.report(1, 0, 0, 4);
  EXPECT_EQ(router.place(known), 0u);  // 6 / 5 < 1.5: 3 + 2 > 0 + 2, 10 arrivals, heat 1
  router.now += std::chrono::seconds(50);
  router.report(0, 0, 0, 20);
  router.report(1, 0, 0, 0);
  EXPECT_EQ(router.place(known), 1u);  // 20 / 10: 3 - 6 * 0.5 + 0 (a prefill) < 2
}

TEST(Dynamo, AddsPrefillAndDecodeBlocks) {
  for (const auto& [rule, chosen] : {std::pair{"dynamo", 1u}, std::pair{"dynamo-tuned", 0u}}) {
    Router router(rule);
    router.set_cached(0, 1000);
    ReplayedRequest& first = router.arrive(1024);  // 24 + 1024 < 1024 + 1024
    ASSERT_EQ(first.backend, 0u);
    router.begin(first);

    router.set_cached(0, 900);
    // Weight 1: 124 + 2048 > 1024 + 1024. Weight 4: 496 + 2048 < 4096 + 1024.
    EXPECT_EQ(router.arrive(1024).backend, chosen) << rule;
  }
}

// 0.25 steps of 8192 tokens: it sends up to 2048 tokens in flight.
TEST(Dynamo, QueuesWhileEveryBackendIsBusyShortestPromptFirst) {
  Router router("dynamo-tuned", fleet_of(1));
  ReplayedRequest& first = router.arrive(3000);
  router.arrive(5000);
  router.arrive(2100);
  EXPECT_THAT(router.sent_tokens, ElementsAre(3000));

  router.begin(first);
  EXPECT_THAT(router.sent_tokens, ElementsAre(3000, 2100));
}

TEST(Dynamo, SendsAtOnceWithoutAQueue) {
  Router router("dynamo", fleet_of(1));
  router.arrive(3000);
  router.arrive(200'000);
  router.arrive(2100);
  EXPECT_THAT(router.sent_tokens, ElementsAre(3000, 200'000, 2100));
}

// A prompt of 8192 tokens takes 0.016 + 8192 * 45 us + 8192 * 4096 * 1.3 ns = 0.428 s, and 0.016 s
// where all but its last token is cached.
TEST(GreedyTtft, TakesTheLeastOfWaitAndPrefill) {
  Router early("greedy-ttft");
  const std::uint32_t first = early.place(blocks(1, 16));
  EXPECT_EQ(early.place(blocks(1, 16)), 1 - first);  // 0.428 + 0.016 > 0 + 0.428

  Router late("greedy-ttft");
  const std::uint32_t warm = late.place(blocks(1, 16));
  late.now += milliseconds(100);
  EXPECT_EQ(late.place(blocks(1, 16)), warm);  // 0.328 + 0.016 < 0 + 0.428
}

TEST(GreedyTtft, CountsAnEndedPrefillNoLonger) {
  Router router("greedy-ttft");
  ReplayedRequest& first = router.arrive(8192, blocks(1, 16));
  router.begin(first);

  EXPECT_EQ(router.place(blocks(1, 16)), first.backend);
}

TEST(LlmdPredicted, StaysWithAPrefixThatCostsLessThanFiveSeconds) {
  Router router("llmd-predicted");
  const std::uint32_t warm = router.place(blocks(1, 16));
  EXPECT_EQ(router.place(blocks(1, 16)), warm);  // 0.444 - 0.428 <= 5

  // 100 000 tokens: 13 * 0.016 + 4.5 + 6.5 = 11.2 s.
  const std::uint32_t other = router.place(blocks(1000, 195));
  EXPECT_EQ(other, 1 - warm);
  EXPECT_EQ(router.place(blocks(1000, 16)), warm);  // 11.2 - 0.9 > 5
}

TEST(LlmdPredicted, KnowsTheSpeedsOfTheBackends) {
  ReplayOptions options = fleet_of(2);
  options.speeds = {0.5, 1};
  Router router("llmd-predicted", options);

  EXPECT_EQ(router.place(blocks(1, 16)), 1u);
}

// TTFT is alike, so the time of tokens decides: fewer streams, less context.
TEST(LlmdPredicted, PrefersTheBackendThatDecodesLess) {
  Router router("llmd-predicted");
  ReplayedRequest& first = router.arrive(4096);
  router.begin(first);

  EXPECT_EQ(router.arrive(100).backend, 1 - first.backend);
}

TEST(Rivals, ServeAnIdleFleetAtItsUnloadedSpeed) {
  Trace trace;
  for (int i = 0; i < 20; ++i) {
    trace.rows.push_back({.due = std::chrono::seconds(20 * i),
                          .prompt_tokens = 8000,
                          .output_tokens = 100,
                          .block_ids = blocks(100 * static_cast<std::uint64_t>(i), 16)});
  }
  EXPECT_EQ(find_rival("nothing"), nullptr);
  for (const Rival& rival : rivals()) {
    const ReplayRow row = replay(trace, fleet_of(4), rival.name, rival.make);

    EXPECT_EQ(row.picker, rival.name);
    EXPECT_EQ(row.goodput_ratio, 1) << rival.name;
    EXPECT_NEAR(row.ttft_p99, 0.016 + 8000 * 45e-6 + 8000 * 4000 * 1.3e-9, 1e-6) << rival.name;
  }
}

}  // namespace
}  // namespace evenkeel::bench
