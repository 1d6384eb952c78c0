#include "cli/duration_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(DurationText, ReadsUnits) {
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("100us"), 100us);
  EXPECT_EQ(parse_duration("2m"), 2min);
  EXPECT_EQ(parse_duration("1.5h"), 90min);
  EXPECT_EQ(parse_duration("0.25"), 250ms);
  EXPECT_EQ(parse_duration("0"), 0s);
}

TEST(DurationText, RefusesEverythingElse) {
  for (const char* text :
       {"", "s", "-1s", "1 s", "1x", "1ss", "1e3s", "nan", "inf", "2000000000"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(DurationText, FormatsTheTwoLargestUnits) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.9), "59s");
  EXPECT_EQ(format_duration(312), "5m 12s");
  EXPECT_EQ(format_duration(7260), "2h 1m");
  EXPECT_EQ(format_duration(273'600), "3d 4h");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "-");
}

}  // namespace
}  // namespace evenkeel
