#include "scheduler/engine_speed.h"

#include <gtest/gtest.h>

#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

/// The server of the reference simulations (the preset `reference`).
constexpr EngineSpeed::Coefficients reference = {.step = 0.016,
                                                 .per_stream = 3e-5,
                                                 .per_context_token = 5.6e-8,
                                                 .per_prefill_token = 4.5e-5,
                                                 .per_attention_pair = 1.3e-9};

EngineSpeed::Coefficients scaled(double factor) {
  return {.step = reference.step * factor,
          .per_stream = reference.per_stream * factor,
          .per_context_token = reference.per_context_token * factor,
          .per_prefill_token = reference.per_prefill_token * factor,
          .per_attention_pair = reference.per_attention_pair * factor};
}

// Recorded from the Python reference: 10 streams, 120 000 tokens of context.
TEST(EngineSpeed, PredictsWhatTheReferenceDoes) {
  const EngineSpeed speed(reference, 8192);

  const double step = speed.step_seconds(10, 120'000);

  EXPECT_NEAR(step, 0.02302, 1e-9);
  EXPECT_NEAR(speed.prefill_seconds(100, 0, step), 0.0275265, 1e-9);
  EXPECT_NEAR(speed.prefill_seconds(8192, 0, step), 0.435280762, 1e-9);
  EXPECT_NEAR(speed.prefill_seconds(8193, 1024, step), 0.469262933, 1e-9);
  EXPECT_NEAR(speed.prefill_seconds(60'000, 30'000, step), 7.56416, 1e-9);
}

TEST(EngineSpeed, LearnsFromPriorsThatAreFourTimesWrongWithinFiftyRequests) {
  const EngineSpeed truth(reference, 8192);
  for (const double wrong : {0.25, 4.0}) {
    EngineSpeed speed(scaled(wrong), 8192);
    Rng rng(17);

    for (int i = 0; i < 50; ++i) {
      const double streams = rng.below(40);
      const double context = streams * 8000;
      const double step = truth.step_seconds(streams, context);
      speed.learn_step(streams, context, step * (0.97 + 0.06 * rng.unit()));
      const double tokens = 200 + rng.below(20'000);
      const double prefill = truth.prefill_seconds(tokens, 0, step) - truth.steps_of(tokens) * step;
      // What is seen is only known to a step.
      speed.learn_prefill(tokens, tokens * tokens / 2, prefill + step * (rng.unit() - 0.5), step);
    }

    const double step = truth.step_seconds(20, 160'000);
    EXPECT_NEAR(speed.step_seconds(20, 160'000) / step, 1, 0.1) << wrong;
    EXPECT_NEAR(speed.prefill_seconds(10'000, 0, step) / truth.prefill_seconds(10'000, 0, step), 1,
                0.1)
        << wrong;
  }
}

TEST(EngineSpeed, LearnsFromWholeResponsesWithinFiftyRequests) {
  const EngineSpeed truth(reference, 8192);
  for (const double wrong : {0.25, 4.0}) {
    EngineSpeed speed(scaled(wrong), 8192);
    Rng rng(23);

    for (int i = 0; i < 50; ++i) {
      const double streams = 1 + rng.below(40);
      const EngineSpeed::Work work = {.steps = 20.0 + rng.below(500),
                                      .streams = streams,
                                      .context_tokens = streams * 8000,
                                      .uncached = 1000.0 + rng.below(100'000),
                                      .pairs = 1e6 * rng.below(1000)};
      const double seconds = work.steps * truth.step_seconds(streams, work.context_tokens) +
                             work.uncached * reference.per_prefill_token +
                             work.pairs * reference.per_attention_pair;
      speed.learn_response(work, seconds * (0.97 + 0.06 * rng.unit()));
    }

    const double step = truth.step_seconds(20, 160'000);
    EXPECT_NEAR(speed.step_seconds(20, 160'000) / step, 1, 0.1) << wrong;
    EXPECT_NEAR(speed.prefill_seconds(10'000, 0, 0) / truth.prefill_seconds(10'000, 0, 0), 1, 0.15)
        << wrong;
  }
}

TEST(EngineSpeed, LearnsFromResponsesThatComeAtOnce) {
  EngineSpeed speed;
  Rng rng(5);

  for (int i = 0; i < 100'000; ++i) {
    const double streams = 32 * rng.unit();
    const double prompts = 1 + rng.below(32);
    speed.learn_response({.steps = 1,
                          .streams = streams,
                          .context_tokens = streams * 280,
                          .uncached = prompts * 280,
                          .pairs = prompts * 280 * 140},
                         1e-4 * (0.2 + 4 * rng.unit()));
    const double step = speed.step_seconds(32, 32 * 280);
    ASSERT_LT(step + speed.prefill_seconds(280, 0, step), i < 100 ? 0.2 : 0.01) << i;
  }
}

TEST(EngineSpeed, NothingTakesNoTime) {
  EngineSpeed speed(reference, 8192);

  for (int i = 0; i < 500; ++i) speed.learn_prefill(5000, 5000 * 2500, 0, 0.01);

  EXPECT_GT(speed.prefill_seconds(5000, 0, 0), 0);
}

}  // namespace
}  // namespace evenkeel::testing
