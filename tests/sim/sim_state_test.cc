#include "sim/sim_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::HasSubstr;

TEST(SimState, ChangesOnlyTheFieldsThatAreGiven) {
  const SimState before{.fault = SimFault::slow, .slow_factor = 7};

  const auto after = read_state(before, R"({"error_status": 503, "fault": "stale-metrics"})");

  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->fault, SimFault::stale_metrics);
  EXPECT_EQ(after->error_status, 503);
  EXPECT_EQ(after->slow_factor, 7);
}

TEST(SimState, ReadsEveryFieldThatItPrints) {
  const SimState state{.fault = SimFault::vram,
                       .slow_factor = 2,
                       .error_status = 429,
                       .die_after_tokens = 8,
                       .gpu_memory_ratio = 0.5,
                       .out_of_memory_after_seconds = 1.5};

  const auto read = read_state({}, '{' + state_members(state) + '}');

  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(state_members(*read), state_members(state));
}

TEST(SimState, NamesTheFieldAndTheRangeOfAnInvalidValue) {
  const auto error = [](std::string json) {
    return read_state({}, std::move(json)).error().detail;
  };

  EXPECT_THAT(error(R"({"fault": "explode"})"), HasSubstr("fault should be one of none, refuse"));
  EXPECT_THAT(error(R"({"fault": 1})"), HasSubstr("fault should be one of"));
  EXPECT_EQ(error(R"({"slow_factor": 0})"), "slow_factor should be above 0");
  EXPECT_EQ(error(R"({"error_status": 200})"), "error_status should be 400 to 599");
  EXPECT_EQ(error(R"({"gpu_memory_ratio": "much"})"), "gpu_memory_ratio should be 0 to 1");
  EXPECT_THAT(error(R"({"speed": 2})"), HasSubstr("unknown field 'speed'; known: fault"));
}

}  // namespace
}  // namespace evenkeel
