#include "server/saved_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "server/observed_backends.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

const SavedState::Key gpu1{"chat", "gpu1:8000"};
const SavedState::Key gpu2{"chat", "gpu2:8000"};

const SavedState some{.saved_at = SavedState::Time(1'763'832'000'123ms),
                      .drained = {gpu1, {"chat", "gpus:8000@10.0.0.1"}},
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
                                   {gpu2, {.learned = {.ejections = 1}}}}};

std::string with_checksum(const std::string& facts) {
  return fmt::format("evenkeel state 2 {:016x}\n{}", hash_of(facts), facts);
}

std::string problem_of(const std::string& text) {
  const auto state = parse_state(text);
  return state ? "" : state.error().detail;
}

TEST(SavedState, IsReadAsItWasWritten) {
  for (const SavedState& state : {some, SavedState{}}) {
    const auto read = parse_state(to_text(state));
    ASSERT_TRUE(read.ok()) << read.error().detail << to_text(state);
    EXPECT_EQ(*read, state);
  }
}

TEST(SavedState, IsNotReadWhenDamagedOrOfAnotherVersion) {
  const std::string text = to_text(some);
  std::string damaged = text;
  damaged[damaged.size() - 2] ^= 1;

  EXPECT_THAT(problem_of(damaged), HasSubstr("checksum"));
  EXPECT_THAT(problem_of(text.substr(0, text.size() - 5)), HasSubstr("checksum"));
  EXPECT_THAT(problem_of("evenkeel state 1 x\n"), HasSubstr("another format"));
  EXPECT_THAT(problem_of("evenkeel state 2 "), HasSubstr("not complete"));
  EXPECT_THAT(problem_of(""), HasSubstr("another format"));
}

TEST(SavedState, IsNotReadIfWhatOperatorsSetIsMalformed) {
  for (const char* const line :
       {"weight chat gpu1:8000 4294967296 1\n", "address chat gpu1:8000 \n", "saved -1\n",
        "saved 9223372036854775807\n", " chat gpu1:8000\n", "\n", "down chat", "drained chat\n"}) {
    EXPECT_THAT(problem_of(with_checksum(line)), HasSubstr("malformed")) << line;
  }
}

TEST(SavedState, IsReadWithoutMalformedLinesAboutWhatWasLearned) {
  const std::string whole = "learned chat gpu1:8000 2 3\ndrained chat gpu2:8000\n";
  const auto expected = parse_state(with_checksum(whole));
  ASSERT_TRUE(expected.ok());
  for (const char* const line :
       {"latency chat gpu1:8000 nan 3 1\n", "latency chat gpu1:8000 inf 3 1\n",
        "latency chat gpu1:8000 -0.5 3 1\n", "latency chat gpu1:8000 0.5 3 -1\n",
        "latency chat gpu1:8000 0.5 3\n", "latency chat gpu1:8000 0.5 3 1 1\n",
        "latency chat  0.5 3 1\n", "learned chat gpu1:8000 1e300 1\n",
        "ejections chat gpu1:8000 1 bored 0\n", "down chat\n", "down chat gpu1:8000 1\n"}) {
    auto read = parse_state(with_checksum(whole + line));
    ASSERT_TRUE(read.ok()) << line << read.error().detail;
    EXPECT_EQ(std::exchange(read->skipped_lines, 0), 1u) << line;
    EXPECT_EQ(*read, *expected) << line;
  }
}

TEST(SavedState, HasDurationsOfADayAtMost) {
  SavedState state = some;
  state.observed[gpu1].learned.ejected_for = 30h;
  state.observed[gpu1].learned.latency_age = 50h;
  for (const std::string& text :
       {to_text(state), with_checksum("latency chat gpu1:8000 0.5 3 180000000\n"
                                      "ejections chat gpu1:8000 3 consecutive 108000000\n")}) {
    const auto read = parse_state(text);
    ASSERT_TRUE(read.ok()) << read.error().detail << text;
    EXPECT_EQ(read->observed.at(gpu1).learned.ejected_for, 24h);
    EXPECT_EQ(read->observed.at(gpu1).learned.latency_age, 24h);
    EXPECT_EQ(read->skipped_lines, 0u);
  }
}

TEST(SavedState, IsReadWithoutWhatOnlyANewerVersionKnows) {
  const auto read =
      parse_state(with_checksum("what chat gpu1:8000 7\ndrained chat gpu1:8000\nmore\n"));

  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(*read, SavedState{.drained = {gpu1}});
}

/// A text with some bytes changed, removed, added or repeated.
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
  const std::string text = to_text(some);
  const std::string facts = text.substr(text.find('\n') + 1);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto damaged = parse_state(mutated(text, rng));
    EXPECT_TRUE(!damaged || *damaged == some);

    const auto read = parse_state(with_checksum(mutated(facts, rng)));
    if (!read) continue;
    ++accepted;
    const auto again = parse_state(to_text(*read));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->drained, read->drained);
    EXPECT_EQ(again->weights, read->weights);
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
