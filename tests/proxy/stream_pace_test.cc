#include "proxy/stream_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(StreamPace, MeasuresTheTimeBetweenOutputsNowAndThen) {
  StreamPace pace;
  std::vector<Duration> intervals;
  Instant now = Instant{} + 1s;
  std::uint32_t outputs = 0;
  int skipped = 0;

  for (int i = 0; i < 200; ++i) {
    now += 10ms;
    if (pace.skips_next()) {
      ++skipped;  // its output is not counted
    } else {
      ++outputs;
    }
    if (const auto interval = pace.on_chunk(outputs, i == 199, now)) intervals.push_back(*interval);
  }

  EXPECT_GE(intervals.size(), 3u);
  EXPECT_LE(intervals.size(), 5u);
  for (const Duration each : intervals) EXPECT_EQ(each, 10ms);
  EXPECT_GT(skipped, 140);
}

TEST(StreamPace, MeasuresTheSameIfOutputIsCountedThroughout) {
  StreamPace pace;
  std::uint32_t outputs = 0;
  int intervals = 0;
  for (Instant now = Instant{} + 1s; outputs < 800; now += 10ms) {
    outputs += outputs % 8 == 0 ? 3 : 1;  // three in a chunk now and then
    const auto interval = pace.on_chunk(outputs, false, now);
    if (!interval) continue;
    ++intervals;
    EXPECT_LE(*interval, 10ms);
    EXPECT_GE(*interval, 5ms);
  }
  EXPECT_GE(intervals, 5);
}

TEST(StreamPace, TakesTwoOutputsForEnoughAtTheEnd) {
  StreamPace pace;
  const Instant start = Instant{} + 1s;
  EXPECT_FALSE(pace.on_chunk(1, false, start));
  EXPECT_FALSE(pace.on_chunk(2, false, start + 10ms));
  EXPECT_EQ(pace.on_chunk(3, true, start + 20ms), 10ms);
}

}  // namespace
}  // namespace evenkeel
