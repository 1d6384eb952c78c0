#include "evenkeel/stats/metrics_page.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

std::string open_metrics(MetricsPage& page) { return page.take_text(MetricsFormat::open_metrics); }

TEST(OpenMetrics, NamesFamiliesWithoutTheSuffixesOfTheirSamples) {
  MetricsPage page;
  page.counters("a_bytes_total", "Bytes.");
  page.add({{"pool", "p"}}, 3);
  page.gauges("b_info", "What it is.");
  page.add({{"version", "1"}}, 1);
  page.gauges("c_seconds", "Time.");
  page.add({}, 0.25);

  EXPECT_EQ(open_metrics(page),
            "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes Bytes.\n"
            "a_bytes_total{pool=\"p\"} 3\n"
            "# TYPE b info\n# HELP b What it is.\nb_info{version=\"1\"} 1\n"
            "# TYPE c_seconds gauge\n# UNIT c_seconds seconds\n# HELP c_seconds Time.\n"
            "c_seconds 0.25\n# EOF\n");
}

TEST(OpenMetrics, HasNoTwoFamiliesOfOneName) {
  MetricsPage page;
  page.gauges("connections", "Now.");
  page.add({}, 1);
  page.counters("connections_total", "Ever.");
  page.add({}, 2);

  EXPECT_EQ(open_metrics(page),
            "# TYPE connections gauge\n# HELP connections Now.\nconnections 1\n"
            "# TYPE connections_total unknown\n# HELP connections_total Ever.\n"
            "connections_total 2\n# EOF\n");
}

TEST(OpenMetrics, EscapesTextAndWritesEveryNumber) {
  MetricsPage page;
  page.gauges("a", "A \"b\" \\ c.\n");
  page.add({{"x", "\"\\\n"}}, std::numeric_limits<double>::quiet_NaN());
  page.add({{"x", "i"}}, -std::numeric_limits<double>::infinity());
  page.add({{"x", "n"}}, 1.5e300);
  page.add({{"x", "m"}}, 1764349633.0);

  EXPECT_EQ(open_metrics(page),
            "# TYPE a gauge\n# HELP a A \\\"b\\\" \\\\ c.\\n\n"
            "a{x=\"\\\"\\\\\\n\"} NaN\na{x=\"i\"} -Inf\na{x=\"n\"} 1.5e+300\n"
            "a{x=\"m\"} 1764349633\n# EOF\n");
}

TEST(OpenMetrics, GivesTheTraceOfABucketsLastObservation) {
  static constexpr std::array<std::uint64_t, 2> bounds = {2'500'000, 1'000'000'000};
  HistogramTotals traced{
      .bounds = bounds, .counts = {1, 2, 0}, .sum_seconds = 1.5, .exemplars = {}};
  HistogramTotals plain = traced;
  traced.exemplars.resize(Exemplars::max_buckets);
  traced.exemplars[1] = {.trace_id = {}, .value = 750'000'000, .time = 1'764'349'633'007};
  traced.exemplars[1].trace_id.fill('a');
  const auto fill = [&](MetricsPage& page) {
    page.histograms("t", "Time.");
    page.add({{"pool", "p"}}, plain);
    page.add({{"pool", "q"}}, traced);
  };
  MetricsPage page;
  fill(page);

  EXPECT_EQ(open_metrics(page),
            "# TYPE t histogram\n# HELP t Time.\n"
            "t_bucket{pool=\"p\",le=\"0.0025\"} 1\nt_bucket{pool=\"p\",le=\"1.0\"} 3\n"
            "t_bucket{pool=\"p\",le=\"+Inf\"} 3\nt_count{pool=\"p\"} 3\nt_sum{pool=\"p\"} 1.5\n"
            "t_bucket{pool=\"q\",le=\"0.0025\"} 1\n"
            "t_bucket{pool=\"q\",le=\"1.0\"} 3 # "
            "{trace_id=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"} 0.75 1764349633.007\n"
            "t_bucket{pool=\"q\",le=\"+Inf\"} 3\nt_count{pool=\"q\"} 3\nt_sum{pool=\"q\"} 1.5\n"
            "# EOF\n");
  fill(page);
  EXPECT_EQ(page.take_text().find("trace_id"), std::string::npos);
}

}  // namespace
}  // namespace evenkeel
