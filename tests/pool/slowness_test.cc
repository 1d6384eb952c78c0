// Backends that are much slower than their pool, and those that get few of its requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/pool/few_requests.h"
#include "evenkeel/pool/pool.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class SlownessTest : public ::testing::Test {
 protected:
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    state_->tick(now_);
  }
  SharedBackend& shared(std::size_t index) { return state_->backends()[index]->shared(); }
  /// A minute of streams with these times per token, and time to the first token.
  void stream(const std::vector<Duration>& per_token, const std::vector<Duration>& first = {}) {
    each_second([&] {
      for (std::size_t i = 0; i < per_token.size(); ++i) {
        shared(i).stats.record_output_interval(per_token[i], now_);
        shared(i).stats.record_first_byte(first.empty() ? 100ms : first[i], now_);
      }
    });
  }
  template <class Do>
  void each_second(Do something, int seconds = 60) {
    for (int i = 0; i < seconds; ++i) {
      something();
      now_ += 1s;
      state_->tick(now_);
    }
  }
  void pick(const std::vector<int>& times) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      for (int j = 0; j < times[i]; ++j) {
        EXPECT_TRUE(shared(i).slots.try_acquire());
        shared(i).slots.release();
      }
    }
    now_ += 1s;
    state_->tick(now_);
  }
  std::string few(std::size_t index) {
    return describe_few_requests(*state_, *state_->backends()[index], now_);
  }

  std::shared_ptr<PoolState> state_;
  Instant now_ = noon;
};

TEST_F(SlownessTest, FindsTheBackendWhoseTokensTakeTenTimesAsLong) {
  given(some_pool(3, 0));

  stream({20ms, 200ms, 22ms});

  EXPECT_NEAR(shared(1).findings.slowness().ratio, 10, 1.5);
  EXPECT_EQ(shared(1).findings.slowness().part, SlowPart::per_token);
  EXPECT_THAT(describe_slowness({.ratio = 10.2F}), "time per token 10x the pool's median");
  EXPECT_EQ(shared(0).findings.slowness().ratio, 0);
  EXPECT_EQ(shared(2).findings.slowness().ratio, 0);
}

TEST_F(SlownessTest, NoticesWithinSecondsOfFewSlowTokensAndThatTheyAreFastAgain) {
  given(some_pool(3, 0));
  stream({20ms, 20ms, 20ms});
  ASSERT_EQ(shared(1).findings.slowness().ratio, 0);

  const auto run = [&](Duration second) {
    each_second(
        [&] {
          for (std::size_t i = 0; i < 3; ++i) {
            shared(i).stats.record_output_interval(i == 1 ? second : 20ms, now_);
            shared(i).stats.record_output_interval(i == 1 ? second : 20ms, now_);
          }
        },
        15);
  };
  run(200ms);
  EXPECT_GT(shared(1).findings.slowness().ratio, 5);
  run(50ms);
  EXPECT_GT(shared(1).findings.slowness().ratio, 2) << "two and a half times as slow is still slow";
  run(20ms);
  EXPECT_EQ(shared(1).findings.slowness().ratio, 0);
}

TEST_F(SlownessTest, TakesNoBackendForSlowThatIsTwiceAsSlowOrSlowByAMillisecond) {
  given(some_pool(3, 0));
  stream({20ms, 45ms, 20ms});
  EXPECT_EQ(shared(1).findings.slowness().ratio, 0);

  given(some_pool(3, 0));
  stream({200us, 1ms, 200us});
  EXPECT_EQ(shared(1).findings.slowness().ratio, 0);
}

TEST_F(SlownessTest, ComparesTheTimeToTheFirstTokenAndOfPoolsWithoutStreamsTheWholeResponse) {
  given(some_pool(2, 0));
  stream({20ms, 20ms}, {100ms, 1s});
  EXPECT_EQ(shared(1).findings.slowness().part, SlowPart::first_token);
  EXPECT_GT(shared(1).findings.slowness().ratio, 5);

  given(some_pool(2, 0));
  each_second([&] {
    shared(0).stats.record_served(100ms, now_);
    shared(1).stats.record_served(1s, now_);
  });
  EXPECT_EQ(shared(1).findings.slowness().part, SlowPart::response);
  EXPECT_GT(shared(1).findings.slowness().ratio, 5);
  EXPECT_EQ(shared(0).findings.slowness().ratio, 0);
}

TEST_F(SlownessTest, ForgetsABackendThatHasNoResponsesAnyMore) {
  given(some_pool(2, 0));
  stream({20ms, 200ms});
  ASSERT_GT(shared(1).findings.slowness().ratio, 0);

  each_second([&] { shared(0).stats.record_output_interval(20ms, now_); }, 70);

  EXPECT_EQ(shared(1).findings.slowness().ratio, 0);
}

TEST_F(SlownessTest, CountsTheTokensOfAnOutput) {
  given(some_pool(2, 0));
  for (int i = 0; i < 100; ++i) shared(1).stats.learn_tokens_per_output(4);  // speculative decoding
  stream({20ms, 80ms});
  EXPECT_EQ(shared(1).findings.slowness().ratio, 0);
  EXPECT_NEAR(seconds_of(*shared(1).stats.recent_summary(now_).per_token.median), 0.02, 0.004);
}

class FewRequestsTest : public SlownessTest {};

TEST_F(FewRequestsTest, SaysNothingOfAFairShareNorBeforeThereAreEnough) {
  given(some_pool(3, 0));
  pick({4, 0, 4});
  EXPECT_EQ(few(1), "");
  for (int i = 0; i < 20; ++i) pick({10, 8, 12});
  EXPECT_EQ(few(1), "");
}

TEST_F(FewRequestsTest, NamesTheWeight) {
  PoolSpec spec = some_pool(3, 0);
  spec.backends[0].config.weight = spec.backends[2].config.weight = 10;
  given(spec);
  for (int i = 0; i < 20; ++i) pick({10, 1, 10});
  EXPECT_EQ(few(1), "few requests: weight 1, the others have 10");
  EXPECT_EQ(few(0), "");
}

TEST_F(FewRequestsTest, NamesWhatThePickerGoesBy) {
  const auto reason_with = [&](const char* picker, auto given_that) {
    PoolSpec spec = some_pool(3, 0);
    spec.config.picker.name = picker;
    spec.config.picker.memory_guard = 0.95;
    given(spec);
    given_that();
    for (int i = 0; i < 20; ++i) pick({10, 1, 10});
    return few(1);
  };
  EXPECT_EQ(reason_with("least-latency",
                        [&] {
                          for (std::size_t i = 0; i < 3; ++i) {
                            shared(i).stats.record_first_byte(i == 1 ? 400ms : 100ms, now_);
                          }
                        }),
            "few requests: time to first token 4x the others'");
  EXPECT_EQ(reason_with("least-connections", [&] { stream({20ms, 100ms, 20ms}); }).substr(0, 28),
            "few requests: time per token");
  EXPECT_EQ(reason_with("consistent-hash", [] {}), "few requests: few requests hash to it");
  EXPECT_EQ(reason_with("round-robin", [] {}), "") << "nothing explains it";

  const auto poll = [&](double waiting, double kv) {
    for (std::size_t i = 0; i < 3; ++i) {
      shared(i).signals.publish(
          {.running = 4, .waiting = i == 1 ? waiting : 0, .kv_cache_ratio = i == 1 ? kv : 0.5},
          now_, 0);
    }
  };
  reason_with("queue-depth", [] {});
  poll(40, 0.5);
  EXPECT_EQ(few(1), "few requests: reported queue 40");
  reason_with("gpu", [] {});
  poll(0, 0.98);
  EXPECT_EQ(few(1), "few requests: kv cache 98 %");
}

}  // namespace
}  // namespace evenkeel::testing
