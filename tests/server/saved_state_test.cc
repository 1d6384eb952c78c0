#include "server/saved_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using testing::HasSubstr;

const SavedState some{.drained = {{"chat", "gpu1:8000"}, {"chat", "gpus:8000@10.0.0.1"}},
                      .weights = {{{"chat", "gpu2:8000"}, {7, 1}}}};

std::string problem_of(const std::string& text) {
  const auto state = parse_state(text);
  return state ? "" : state.error().detail;
}

TEST(SavedState, IsReadAsItWasWritten) {
  for (const SavedState& state : {some, SavedState{}}) {
    const auto read = parse_state(to_text(state));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, state);
  }
}

TEST(SavedState, IsNotReadWhenDamagedOrOfAnotherVersion) {
  const std::string text = to_text(some);
  std::string damaged = text;
  damaged[damaged.size() - 2] ^= 1;

  EXPECT_THAT(problem_of(damaged), HasSubstr("checksum"));
  EXPECT_THAT(problem_of(text.substr(0, text.size() - 5)), HasSubstr("checksum"));
  EXPECT_THAT(problem_of("evenkeel state 2 x\n"), HasSubstr("another format"));
  EXPECT_THAT(problem_of("evenkeel state 1 "), HasSubstr("not complete"));
  EXPECT_THAT(problem_of(""), HasSubstr("another format"));
}

}  // namespace
}  // namespace evenkeel
