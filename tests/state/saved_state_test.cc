#include "evenkeel/state/saved_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/state/observed_backends.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

const SavedState::Key gpu1{"chat", "gpu1:8000"};
const SavedState::Key gpu2{"chat", "gpu2:8000"};

LearnedEngine some_engine() {
  LearnedEngine engine{.kv_tokens = 500'000,
                       .step_tokens = 2048,
                       .index_capacity = 1950.5,
                       .tokens_per_block = 256.25,
                       .confirms_hits = 0.9,
                       .streams = 1.0 / 3,
                       .has_blocks = 0.99,
                       .finished = 1234,
                       .mean_prefill = 0.21,
                       .mean_context = 4321.5,
                       .load_seconds = 1.25,
                       .run = {.start_time = 1'763'832'000.17, .work_done = 987'654},
                       .adapters = {{.name = 0xfeed, .age = 2.5}, {.name = 7, .age = 0}},
                       .prefixes = {0, 1, 63, 64, ~std::uint64_t{0}, 0x0123456789abcdef}};
  engine.step = {.coefficients = {0.03, 5e-5, 1e-7},
                 .max_variance = {9e-4, 1e-9, 1e-14},
                 .covariance = {{{1e-6, 2e-9, 3e-12}, {2e-9, 4e-10, 5e-15}, {3e-12, 5e-15, 6e-16}}},
                 .samples = 400,
                 .weight = 180.5};
  engine.prefill = {.coefficients = {0.09, 0.002},
                    .max_variance = {0.01, 1e-5},
                    .covariance = {{{1e-4, -2e-6}, {-2e-6, 3e-7}}},
                    .samples = 77,
                    .weight = 50};
  for (std::uint64_t i = 0; i < 10'000; ++i) engine.prefixes.push_back(mix(i));
  return engine;
}

LearnedTraffic some_traffic() {
  LearnedTraffic traffic{.mean_prefill = 0.31,
                         .tokens_per_event = 1.5,
                         .cached_found = -12.5,
                         .cached_possible = 4000};
  for (std::uint64_t i = 0; i < 150; ++i) {
    traffic.output_lengths.push_back(static_cast<double>(i) / 3);
    traffic.output_classes.push_back(
        {.key = mix(i), .outputs = 1 + static_cast<double>(i), .mean = 100.5});
  }
  return traffic;
}

std::vector<AffinityTable::Saved> some_sessions() {
  std::vector<AffinityTable::Saved> sessions;
  for (std::uint64_t i = 1; i < 10'000; ++i)
    sessions.push_back({.key = mix(i),
                        .tag = mix(i) >> 25,
                        .idle = std::chrono::seconds(i),
                        .confirmed = i < 5'000});
  return sessions;
}

const SavedState some{.saved_at = SavedState::Time(1'763'832'000'123ms),
                      .drained = {gpu1, {"chat", "gpus:8000@10.0.0.1"}},
                      .drain_ends = {{gpu1, SavedState::Time(1'763'832'600'000ms)}},
                      .weights = {{gpu2, {7, 1}}},
                      .addresses = {{gpu2, "10.0.0.2:8000"}},
                      .observed = {{gpu1,
                                    {.down = true,
                                     .learned = {.latency_seconds = 0.125,
                                                 .latency_samples = 40,
                                                 .latency_age = 1500ms,
                                                 .weight = 1.75,
                                                 .speed = 1.0 / 3,
                                                 .ejections = 3,
                                                 .ejected = EjectionReason::success_rate,
                                                 .ejected_for = 4s}}},
                                   {gpu2, {.learned = {.ejections = 1}}}},
                      .traffic = {{"chat", some_traffic()}},
                      .engines = {{gpu1, some_engine()}, {gpu2, {.finished = 3}}},
                      .sessions = {{"chat", some_sessions()}},
                      .tokenizers = {{.model = 0xfeedULL << 40, .bytes_per_token = 4.5},
                                     {.model = 7, .bytes_per_token = 3, .rough = true}},
                      .quotas = {{.key = 0x8000'0000'0000'0001, .value = -5},
                                 {.key = 2, .value = std::int64_t{1} << 60}},
                      .ended_trials = {{7, CanaryVerdict::too_many_errors},
                                       {0x8000'0000'0000'0002, CanaryVerdict::too_slow}}};

std::string with_checksum(const std::string& message) {
  return fmt::format("evenkeel state 3 {:016x}\n{}", hash_of(message), message);
}

std::string problem_of(const std::string& bytes) {
  const auto state = parse_state(bytes);
  return state ? "" : state.error().detail;
}

TEST(SavedState, IsReadAsItWasWritten) {
  for (const SavedState& state : {some, SavedState{}}) {
    const auto read = parse_state(to_bytes(state));
    ASSERT_TRUE(read.ok()) << read.error().detail;
    EXPECT_EQ(*read, state);
  }
}

TEST(SavedState, IsNotReadWhenDamagedOrOfAnotherVersion) {
  std::string changed = to_bytes(some);
  changed[changed.size() / 2] ^= 1;
  EXPECT_THAT(problem_of(changed), HasSubstr("damaged"));
  EXPECT_THAT(problem_of(to_bytes(some).substr(0, 500)), HasSubstr("damaged"));
  EXPECT_THAT(problem_of("evenkeel state 3 "), HasSubstr("damaged"));
  EXPECT_THAT(problem_of(with_checksum("\x0a\xff")), HasSubstr("damaged"));
  EXPECT_THAT(problem_of("evenkeel state 2 x\n"), HasSubstr("another format"));
  EXPECT_THAT(problem_of(""), HasSubstr("another format"));
}

TEST(SavedState, HasDurationsOfADayAtMost) {
  SavedState state = some;
  state.observed[gpu1].learned.ejected_for = 30h;
  state.observed[gpu1].learned.latency_age = 50h;
  const auto read = parse_state(to_bytes(state));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->observed.at(gpu1).learned.ejected_for, 24h);
  EXPECT_EQ(read->observed.at(gpu1).learned.latency_age, 24h);
}

TEST(SavedState, HasNoNumberThatIsNone) {
  SavedState state = some;
  state.observed[gpu1].learned.speed = std::numeric_limits<double>::quiet_NaN();
  state.engines[gpu1].prefill.coefficients[0] = std::numeric_limits<double>::infinity();
  const auto read = parse_state(to_bytes(state));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->observed.at(gpu1).learned.speed, 0);
  EXPECT_EQ(read->engines.at(gpu1).prefill.coefficients[0], 0);
}

/// Bytes of which some were changed, removed, added or repeated.
std::string mutated(std::string text, Rng& rng) {
  const auto below = [&](std::size_t bound) {
    return rng.below(static_cast<std::uint32_t>(bound));
  };
  const std::uint32_t edits = 1 + rng.below(4);
  for (std::uint32_t edit = 0; edit < edits && !text.empty(); ++edit) {
    const std::size_t at = below(text.size());
    const std::size_t size = below(text.size() - at + 1);
    switch (rng.below(5)) {
      case 0: text[at] = static_cast<char>(rng()); break;
      case 1: text.erase(at, size % 40); break;
      case 2: text.insert(at, 1 + size % 5, static_cast<char>(rng())); break;
      case 3: text.insert(below(text.size() + 1), text.substr(at, size % 80)); break;
      default: text.resize(at); break;
    }
  }
  return text;
}

TEST(SavedState, AnyBytesAreRejectedOrReadAsAStateThatCanBeWritten) {
  Rng rng(7);
  SavedState small = some;
  small.engines[gpu1].prefixes.resize(10);
  small.sessions["chat"].resize(10);
  const std::string bytes = to_bytes(small);
  const std::string message = bytes.substr(bytes.find('\n') + 1);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto damaged = parse_state(mutated(bytes, rng));
    EXPECT_TRUE(!damaged || *damaged == small);

    const auto read = parse_state(with_checksum(mutated(message, rng)));
    if (!read) continue;
    ++accepted;
    const auto again = parse_state(to_bytes(*read));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *read);
  }
  EXPECT_GT(accepted, 1000) << "the mutations reach what lies behind the checksum";
}

TEST(SavedState, ObservationsGrowOldAndAreThenNotBelieved) {
  const auto later = aged(some.observed, 3s);
  EXPECT_EQ(later.at(gpu1).learned.latency_age, 4500ms);
  EXPECT_EQ(later.at(gpu1).learned.ejected_for, 1s);
  EXPECT_EQ(aged(some.observed, 30s).at(gpu1).learned.ejected_for, 0s);
  EXPECT_THAT(aged(some.observed, max_observed_age + 1ms), IsEmpty());
  EXPECT_THAT(aged(some.observed, -1ms), IsEmpty()) << "the clock was set back";
}

}  // namespace
}  // namespace evenkeel
