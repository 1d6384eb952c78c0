#include "evenkeel/sim/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <numeric>

#include "evenkeel/sim/presets.h"

namespace evenkeel {
namespace {

std::vector<std::uint64_t> hashes(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

std::unique_ptr<Sequence> make(std::uint32_t prompt, std::uint32_t output,
                               std::vector<std::uint64_t> blocks = {}) {
  auto sequence = std::make_unique<Sequence>();
  sequence->prompt_tokens = prompt;
  sequence->output_tokens = output;
  sequence->block_hashes = std::move(blocks);
  return sequence;
}

// 10 ms for the weights, 0.1 ms per token, 1 ms overhead; 1 us per context token.
EngineSpec plain_spec() {
  return {.max_batched_tokens = 1000,
          .max_sequences = 8,
          .block_tokens = 16,
          .kv_blocks = 1001,
          .cost = {.weights = 0.010,
                   .per_token = 0.0001,
                   .overhead = 0.001,
                   .per_context_token = 1e-6,
                   .per_prefill_context_token = 1e-6}};
}

// Runs until there is no work. Returns the time that it took and counts the tokens.
double drain(StepEngine& engine, std::size_t* tokens = nullptr) {
  double seconds = 0;
  while (auto step = engine.start_step()) {
    seconds += step->seconds;
    const auto yielded = engine.finish_step();
    if (tokens != nullptr) *tokens += yielded.size();
  }
  return seconds;
}

// ---- Adapters ----

constexpr double load_seconds = 2;

EngineSpec with_adapters(std::uint32_t adapters, std::uint32_t slots) {
  EngineSpec spec = plain_spec();
  spec.adapters = adapters;
  spec.adapter_slots = slots;
  spec.adapter_load_seconds = load_seconds;
  return spec;
}

std::unique_ptr<Sequence> make_for(std::uint32_t adapter, std::uint32_t output = 1) {
  auto sequence = make(10, output);
  sequence->adapter = adapter;
  return sequence;
}

TEST(StepEngine, LoadsAnAdapterInTheStepThatNeedsIt) {
  StepEngine engine(with_adapters(3, 2));
  const auto seconds_of = [&engine](std::uint32_t adapter) {
    const auto sequence = make_for(adapter);
    engine.submit(*sequence);
    return drain(engine);
  };

  EXPECT_LT(seconds_of(0), load_seconds);
  EXPECT_LT(seconds_of(3), load_seconds) << "the last ones are loaded when it starts";
  EXPECT_LT(seconds_of(2), load_seconds);
  EXPECT_GT(seconds_of(1), load_seconds);
  EXPECT_LT(seconds_of(1), load_seconds);
  EXPECT_LT(seconds_of(2), load_seconds);
  EXPECT_GT(seconds_of(3), load_seconds) << "it was not used for longest";
  EXPECT_EQ(engine.totals().adapter_loads, 2u);
}

TEST(StepEngine, DefersARequestWithoutASlotForItsAdapter) {
  StepEngine engine(with_adapters(3, 1));
  const auto first = make_for(3, 5);
  const auto deferred = make_for(2);
  const auto same = make_for(3, 5);
  const auto none = make_for(0, 5);
  for (Sequence* each : {first.get(), deferred.get(), same.get(), none.get()}) engine.submit(*each);

  const auto step = engine.start_step();
  engine.finish_step();

  EXPECT_EQ(step->admitted, 3u) << "others pass it";
  EXPECT_FALSE(deferred->admitted());
  EXPECT_EQ(engine.deferred(), 1u);
  drain(engine);
  EXPECT_TRUE(deferred->admitted());
  EXPECT_EQ(engine.deferred(), 0u);
}

TEST(StepEngine, HasNoStepWithoutWork) {
  StepEngine engine(plain_spec());

  EXPECT_FALSE(engine.start_step().has_value());
  EXPECT_EQ(engine.kv_cache_ratio(), 0);
}

TEST(StepEngine, AShortPromptTakesTheTimeOfTheWeights) {
  StepEngine engine(plain_spec());
  auto sequence = make(50, 2);
  engine.submit(*sequence);

  const auto step = engine.start_step();

  ASSERT_TRUE(step.has_value());
  EXPECT_NEAR(step->seconds, 0.010 + 0.001 + 50e-6, 1e-12);  // 50 tokens compute in 5 ms: hidden
  EXPECT_EQ(step->prefill_tokens, 50u);
  EXPECT_EQ(step->decodes, 0u);
}

TEST(StepEngine, ALongPromptTakesTheTimeOfItsTokens) {
  StepEngine engine(plain_spec());
  auto sequence = make(500, 2);
  engine.submit(*sequence);

  const auto step = engine.start_step();

  ASSERT_TRUE(step.has_value());
  EXPECT_NEAR(step->seconds, 0.050 + 0.001 + 500e-6, 1e-12);
}

TEST(StepEngine, APromptYieldsItsFirstTokenWhenComputedAndThenOnePerStep) {
  StepEngine engine(plain_spec());
  auto sequence = make(100, 3);
  engine.submit(*sequence);

  for (std::uint32_t index = 0; index < 3; ++index) {
    ASSERT_TRUE(engine.start_step().has_value());
    const auto tokens = engine.finish_step();
    ASSERT_EQ(tokens.size(), 1u);
    EXPECT_EQ(tokens[0].sequence, sequence.get());
    EXPECT_EQ(tokens[0].index, index);
    EXPECT_EQ(tokens[0].last, index == 2);
  }
  EXPECT_FALSE(engine.start_step().has_value());
  EXPECT_FALSE(sequence->active());
  EXPECT_EQ(engine.kv_cache_ratio(), 0);
}

TEST(StepEngine, APromptBeyondTheBudgetIsComputedInChunks) {
  StepEngine engine(plain_spec());
  auto sequence = make(2500, 1);
  engine.submit(*sequence);

  std::vector<std::uint32_t> chunks;
  std::vector<std::size_t> yielded;
  while (auto step = engine.start_step()) {
    chunks.push_back(step->prefill_tokens);
    yielded.push_back(engine.finish_step().size());
  }

  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{1000, 1000, 500}));
  EXPECT_EQ(yielded, (std::vector<std::size_t>{0, 0, 1}));
}

TEST(StepEngine, APromptGetsItsBlocksChunkByChunkOrAllAtOnce) {
  for (const bool whole : {false, true}) {
    EngineSpec spec = plain_spec();
    spec.allocate_whole_prompts = whole;
    StepEngine engine(spec);
    auto sequence = make(2500, 1);
    engine.submit(*sequence);

    engine.start_step();
    EXPECT_NEAR(engine.kv_cache_ratio(), whole ? 0.157 : 0.063, 1e-9);
    engine.finish_step();
    drain(engine);
    EXPECT_EQ(engine.kv_cache_ratio(), 0);
    EXPECT_EQ(engine.totals().generated_tokens, 1u);
  }
}

TEST(StepEngine, ALongPrefillLengthensTheStepsOfRunningDecodes) {
  StepEngine engine(plain_spec());
  auto decoding = make(100, 100);
  engine.submit(*decoding);
  engine.start_step();
  engine.finish_step();
  const double alone = engine.start_step()->seconds;
  engine.finish_step();
  auto prompt = make(900, 1);
  engine.submit(*prompt);

  const auto mixed = engine.start_step();

  EXPECT_NEAR(alone, 0.010 + 0.001 + 101e-6, 1e-12);
  ASSERT_TRUE(mixed.has_value());
  EXPECT_EQ(mixed->decodes, 1u);
  EXPECT_EQ(mixed->prefill_tokens, 900u);
  EXPECT_NEAR(mixed->seconds, 0.0901 + 0.001 + 102e-6 + 900e-6, 1e-12);
  EXPECT_EQ(engine.finish_step().size(), 2u);
}

TEST(StepEngine, DecodesComeOutOfTheSameBudgetAsChunks) {
  EngineSpec spec = plain_spec();
  spec.max_batched_tokens = 100;
  StepEngine engine(spec);
  auto a = make(10, 50);
  auto b = make(10, 50);
  engine.submit(*a);
  engine.submit(*b);
  engine.start_step();
  engine.finish_step();
  auto prompt = make(150, 1);
  engine.submit(*prompt);

  const auto first = engine.start_step();
  engine.finish_step();
  const auto second = engine.start_step();
  engine.finish_step();

  EXPECT_EQ(first->prefill_tokens, 98u);
  EXPECT_EQ(second->prefill_tokens, 52u);
  EXPECT_EQ(second->decodes, 2u);
}

TEST(StepEngine, AdmitsInTheOrderOfArrivalAndNeverPastOneThatDoesNotFit) {
  EngineSpec spec = plain_spec();
  spec.kv_blocks = 11;  // 10 blocks, 160 tokens
  StepEngine engine(spec);
  auto first = make(100, 30);
  auto large = make(150, 1);
  auto small = make(10, 1);
  engine.submit(*first);
  engine.submit(*large);
  engine.submit(*small);

  engine.start_step();
  engine.finish_step();

  EXPECT_TRUE(first->admitted());
  EXPECT_FALSE(large->admitted());
  EXPECT_FALSE(small->admitted());
  EXPECT_EQ(engine.running(), 1u);
  EXPECT_EQ(engine.waiting(), 2u);
  std::size_t tokens = 0;
  drain(engine, &tokens);
  EXPECT_EQ(tokens, 29u + 1 + 1);
}

TEST(StepEngine, RunsAtMostMaxSequencesAtOnce) {
  StepEngine engine(plain_spec());
  std::deque<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < 12; ++i) {
    sequences.push_back(make(10, 5));
    engine.submit(*sequences.back());
  }

  engine.start_step();
  engine.finish_step();

  EXPECT_EQ(engine.running(), 8u);
  EXPECT_EQ(engine.waiting(), 4u);
}

TEST(StepEngine, APrefixThatWasComputedBeforeShortensThePrefill) {
  StepEngine engine(plain_spec());
  auto first = make(320, 1, hashes(1, 20));
  engine.submit(*first);
  drain(engine);
  auto second = make(330, 1, hashes(1, 20));
  engine.submit(*second);

  const auto step = engine.start_step();

  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->prefill_tokens, 10u);
  EXPECT_EQ(second->cached_tokens(), 320u);
}

TEST(StepEngine, TheLastTokenOfAPromptIsComputedEvenIfAllOfItIsCached) {
  StepEngine engine(plain_spec());
  auto first = make(320, 1, hashes(1, 20));
  engine.submit(*first);
  drain(engine);
  auto same = make(320, 1, hashes(1, 20));
  engine.submit(*same);

  const auto step = engine.start_step();

  EXPECT_EQ(same->cached_tokens(), 304u);
  EXPECT_EQ(step->prefill_tokens, 16u);
}

TEST(StepEngine, RequestsOfOneStepShareAPrefix) {
  StepEngine engine(plain_spec());
  auto first = make(320, 5, hashes(1, 20));
  auto second = make(320, 5, hashes(1, 20));
  engine.submit(*first);
  engine.submit(*second);

  const auto step = engine.start_step();

  EXPECT_EQ(step->admitted, 2u);
  EXPECT_EQ(step->prefill_tokens, 336u);
  EXPECT_NEAR(engine.kv_cache_ratio(), 21.0 / 1000, 1e-12);
}

TEST(StepEngine, AnOutputIsCachedForTheNextTurnOfItsConversation) {
  StepEngine engine(plain_spec());
  auto first_turn = make(32, 33, hashes(1, 4));
  engine.submit(*first_turn);
  drain(engine);
  auto second_turn = make(100, 1, hashes(1, 6));
  engine.submit(*second_turn);

  engine.start_step();

  EXPECT_EQ(second_turn->cached_tokens(), 64u);
}

TEST(StepEngine, OutOfBlocksPreemptsTheYoungestWhichRestartsFromTheQueueHead) {
  EngineSpec spec = plain_spec();
  spec.kv_blocks = 9;  // 8 blocks of 16
  StepEngine engine(spec);
  auto oldest = make(60, 60);
  auto youngest = make(60, 60);
  auto waiting = make(60, 1);
  engine.submit(*oldest);
  engine.submit(*youngest);
  engine.submit(*waiting);

  // 4 blocks each; the 65th token of each needs a fifth.
  while (engine.totals().preemptions == 0) {
    ASSERT_TRUE(engine.start_step().has_value());
    engine.finish_step();
  }

  EXPECT_EQ(youngest->preemptions(), 1u);
  EXPECT_EQ(oldest->preemptions(), 0u);
  EXPECT_EQ(youngest->generated(), 5u);
  EXPECT_EQ(oldest->generated(), 6u);
  EXPECT_EQ(engine.waiting(), 2u);
  std::size_t tokens = 0;
  drain(engine, &tokens);
  EXPECT_EQ(tokens, 54u + 55 + 1);
  EXPECT_GE(engine.totals().prefill_tokens, 60u + 60 + 60 + 65);
  EXPECT_EQ(engine.kv_cache_ratio(), 0);
}

TEST(StepEngine, AbortFreesTheBlocksOfARunningRequestAtOnce) {
  StepEngine engine(plain_spec());
  auto sequence = make(160, 50);
  engine.submit(*sequence);
  engine.start_step();
  ASSERT_GT(engine.kv_cache_ratio(), 0);

  sequence.reset();

  EXPECT_EQ(engine.kv_cache_ratio(), 0);
  EXPECT_EQ(engine.running(), 0u);
  EXPECT_TRUE(engine.finish_step().empty());
  EXPECT_FALSE(engine.start_step().has_value());
}

TEST(StepEngine, AbortRemovesAQueuedRequest) {
  EngineSpec spec = plain_spec();
  spec.max_sequences = 1;
  StepEngine engine(spec);
  auto running = make(10, 3);
  auto waiting = make(10, 3);
  engine.submit(*running);
  engine.submit(*waiting);
  engine.start_step();

  waiting.reset();

  EXPECT_EQ(engine.waiting(), 0u);
  EXPECT_EQ(engine.finish_step().size(), 1u);
}

TEST(StepEngine, ASequenceMayBeDestroyedWhileTheTokensOfItsStepAreRead) {
  StepEngine engine(plain_spec());
  auto a = make(10, 3);
  auto b = make(10, 3);
  engine.submit(*a);
  engine.submit(*b);
  engine.start_step();

  const auto tokens = engine.finish_step();
  b.reset();

  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].sequence, a.get());
  EXPECT_EQ(tokens[1].sequence, nullptr);
}

TEST(StepEngine, AnOutputIsCutWhereTheContextIsFull) {
  EngineSpec spec = plain_spec();
  spec.kv_blocks = 5;  // 64 tokens
  StepEngine engine(spec);
  auto sequence = make(60, 1000);
  engine.submit(*sequence);

  std::size_t tokens = 0;
  drain(engine, &tokens);

  EXPECT_EQ(tokens, 4u);
}

TEST(StepEngine, AnIdleEngineHoldsNoBlocks) {
  EngineSpec spec = plain_spec();
  spec.kv_blocks = 60;
  spec.max_batched_tokens = 128;
  StepEngine engine(spec);
  std::deque<std::unique_ptr<Sequence>> sequences;
  std::uint32_t chance = 1;
  const auto next = [&chance](std::uint32_t bound) {
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % bound;
  };
  std::size_t last_tokens = 0;
  for (int round = 0; round < 3000; ++round) {
    if (next(3) == 0) {
      sequences.push_back(make(1 + next(400), 1 + next(60), hashes(1 + 100 * next(4), next(20))));
      engine.submit(*sequences.back());
    }
    if (next(10) == 0 && !sequences.empty()) sequences.pop_front();
    if (!engine.start_step()) continue;
    if (next(20) == 0 && !sequences.empty()) sequences.pop_back();
    for (const auto& token : engine.finish_step()) last_tokens += token.last ? 1 : 0;
  }
  drain(engine);

  EXPECT_GT(last_tokens, 100u);
  EXPECT_GT(engine.totals().preemptions, 0u);
  EXPECT_EQ(engine.kv_cache_ratio(), 0);
  EXPECT_EQ(engine.running() + engine.waiting(), 0u);
}

// ---- The presets, against published numbers ----------------------------------------------------

double prefill_tokens_per_second(const char* preset) {
  StepEngine engine(find_preset(preset)->engine);
  auto sequence = make(8192, 1);
  engine.submit(*sequence);
  return 8192 / drain(engine);
}

double decode_step_ms(const char* preset, std::uint32_t batch, std::uint32_t context) {
  StepEngine engine(find_preset(preset)->engine);
  std::deque<std::unique_ptr<Sequence>> sequences;
  for (std::uint32_t i = 0; i < batch; ++i) {
    sequences.push_back(make(context, 1000));
    engine.submit(*sequences.back());
  }
  while (auto step = engine.start_step()) {
    engine.finish_step();
    if (step->prefill_tokens == 0) return step->seconds * 1e3;
  }
  return 0;
}

TEST(Presets, HaveUniqueNamesAndAreFoundByThem) {
  for (const Preset& preset : presets()) EXPECT_EQ(find_preset(preset.name), &preset);
  EXPECT_EQ(find_preset("no-such-gpu"), nullptr);
}

TEST(Presets, PrefillAtTheMeasuredRates) {
  // Vidur: about 14.5k, 6.2k and 11k tokens per second for the kernels alone.
  EXPECT_NEAR(prefill_tokens_per_second("llama-3-8b-a100"), 14'000, 800);
  EXPECT_NEAR(prefill_tokens_per_second("llama-3-70b-a100-tp4"), 6'100, 300);
  EXPECT_NEAR(prefill_tokens_per_second("llama-3-70b-a100-tp8"), 11'100, 500);
  EXPECT_NEAR(prefill_tokens_per_second("llama-3-8b-h100"), 31'000, 2'000);
}

TEST(Presets, DecodeAtThePublishedPace) {
  // vLLM's sample of an 8B model: 7.9 ms per token with ten short prompts; an A100 alone: 13.3 ms.
  EXPECT_NEAR(decode_step_ms("llama-3-8b-h100", 10, 250), 8.1, 0.4);
  EXPECT_NEAR(decode_step_ms("llama-3-8b-a100", 1, 1024), 12.1, 1.3);
  // 64 sequences of 1k context read 4.2 ms (A100) and 2.5 ms (H100) of keys and values.
  EXPECT_NEAR(decode_step_ms("llama-3-8b-a100", 64, 1024), 10 + 2 + 4.3, 0.2);
  EXPECT_NEAR(decode_step_ms("llama-3-8b-h100", 64, 1024), 6 + 2 + 2.6, 0.2);
  // Splitwise, 70B on 8 H100: 30 to 50 ms with the software of 2023, whose overhead was half of it.
  EXPECT_NEAR(decode_step_ms("llama-3-70b-h100-tp8", 16, 1024), 15.2, 0.5);
}

TEST(Presets, TheReferenceServerStepsByItsFormula) {
  StepEngine engine(find_preset("reference")->engine);
  auto decoding = make(1000, 10);
  engine.submit(*decoding);
  const double prefill = engine.start_step()->seconds;
  engine.finish_step();
  const double decode = engine.start_step()->seconds;

  EXPECT_NEAR(prefill, 0.016 + 1000 * 45e-6 + 1000 * 500 * 1.3e-9, 1e-12);
  EXPECT_NEAR(decode, 0.016 + 30e-6 + 1001 * 5.6e-8, 1e-12);
}

}  // namespace
}  // namespace evenkeel
