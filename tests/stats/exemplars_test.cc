#include "evenkeel/stats/exemplars.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "evenkeel/stats/histogram.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

ObservedTrace trace_at(std::string_view trace_id, std::chrono::milliseconds time) {
  return {.trace_id = trace_id, .time = std::chrono::system_clock::time_point(time)};
}

std::string_view trace_id_of(const Exemplar& exemplar) {
  return {exemplar.trace_id.data(), exemplar.trace_id.size()};
}

const std::string first(32, '1');
const std::string second(32, '2');

TEST(TracedHistogram, KeepsTheLastTraceOfEachBucket) {
  TracedHistogram<request_bounds> histogram;
  histogram.observe(3ms);
  HistogramTotals untraced;
  histogram.add_to(untraced);
  EXPECT_TRUE(untraced.exemplars.empty());

  histogram.keep_exemplar(3ms, trace_at(first, 1000ms));
  histogram.keep_exemplar(4ms, trace_at(second, 2000ms));
  histogram.keep_exemplar(1h, trace_at(first, 3000ms));
  HistogramTotals totals;
  histogram.add_to(totals);

  EXPECT_EQ(trace_id_of(totals.exemplars[0]), second);
  EXPECT_EQ(totals.exemplars[0].value, 4'000'000);
  EXPECT_EQ(totals.exemplars[0].time, 2000);
  EXPECT_FALSE(totals.exemplars[1].exists());
  EXPECT_EQ(trace_id_of(totals.exemplars[request_bounds.size()]), first);
}

TEST(TracedHistogram, GivesTheLatestOfAllWorkers) {
  TracedHistogram<request_bounds> one;
  TracedHistogram<request_bounds> other;
  one.keep_exemplar(3ms, trace_at(first, 2000ms));
  other.keep_exemplar(3ms, trace_at(second, 1000ms));
  HistogramTotals totals;

  one.add_to(totals);
  other.add_to(totals);

  EXPECT_EQ(trace_id_of(totals.exemplars[0]), first);
}

TEST(TracedHistogram, ForgetsItsTracesWithItsCounts) {
  TracedHistogram<request_bounds> histogram;
  histogram.observe(3ms);
  histogram.keep_exemplar(3ms, trace_at(first, 1000ms));

  histogram.clear();

  HistogramTotals totals;
  histogram.add_to(totals);
  EXPECT_EQ(totals.counts[0], 0u);
  for (const Exemplar& each : totals.exemplars) EXPECT_FALSE(each.exists());
}

TEST(Exemplars, CanBeReadWhileTheyAreRecorded) {
  Exemplars exemplars;
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    for (int i = 1; !stop.load(); i = i % 9 + 1) {
      exemplars.record(3, std::chrono::nanoseconds(i),
                       trace_at(std::string(32, static_cast<char>('0' + i)), 1ms * i));
    }
  });

  for (int read = 0; read < 1000;) {
    std::vector<Exemplar> found;
    exemplars.add_to(found);
    if (found.empty() || !found[3].exists()) continue;
    ++read;
    const auto digit = static_cast<char>('0' + found[3].value);
    ASSERT_EQ(trace_id_of(found[3]), std::string(32, digit));
    ASSERT_EQ(found[3].time, found[3].value);
  }
  stop.store(true);
  worker.join();
}

}  // namespace
}  // namespace evenkeel::testing
