#include "cli/replay_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::HasSubstr;

ReplayRow some_row() {
  return {.picker = "gpu",
          .backends = 8,
          .requests = 90,
          .goodput_ratio = 0.975,
          .ttft_p50 = 0.25,
          .ttft_p90 = 0.5,
          .ttft_p99 = 2,
          .slowdown_p90 = 1.5,
          .slowdown_p99 = 3,
          .tpot_p50 = 0.03,
          .tpot_p99 = 0.125,
          .e2e_p50 = 4,
          .e2e_p99 = 20,
          .hit_ratio = 0.25,
          .utilization_ratio = 0.5,
          .imbalance = 1.25,
          .shed = 3};
}

TEST(ReplayText, IsATableWithALineForEachPicker) {
  const std::string table = replay_table({some_row(), some_row()});

  EXPECT_THAT(table, HasSubstr("goodput %"));
  EXPECT_THAT(table, HasSubstr("97.5"));
  EXPECT_THAT(table, HasSubstr("125"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
}

TEST(ReplayText, IsJsonInSeconds) {
  EXPECT_EQ(replay_json({some_row()}),
            R"({"rows":[{"picker":"gpu","backends":8,"requests":90,"goodput_ratio":0.975000,)"
            R"("ttft_seconds":{"p50":0.250000,"p90":0.500000,"p99":2.000000},)"
            R"("slowdown":{"p90":1.5000,"p99":3.0000},)"
            R"("tpot_seconds":{"p50":0.030000,"p99":0.125000},)"
            R"("e2e_seconds":{"p50":4.000000,"p99":20.000000},"hit_ratio":0.250000,)"
            R"("utilization_ratio":0.500000,"imbalance":1.2500,"shed":3,"unfinished":0}]})"
            "\n");
  EXPECT_EQ(replay_json({}), "{\"rows\":[]}\n");
}

}  // namespace
}  // namespace evenkeel
