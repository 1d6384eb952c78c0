#include "scheduler/stream_slack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

TEST(StreamSlack, EqualsItsDefinition) {
  Rng rng(23);
  StreamSlack slack;
  std::vector<double> streams;
  for (int i = 0; i < 200; ++i) {
    streams.push_back(8 * rng.unit() - 1);
    slack.add(streams.back());
  }
  slack.sort();

  for (const double prefill : {0.001, 0.3, 1.0, 5.0, 100.0}) {
    double expected = 0;
    for (const double each : streams) {
      if (each > 0) expected += std::min(1.0, prefill / each);
    }
    EXPECT_NEAR(slack.violations(prefill), expected, 1e-9 * expected) << prefill;
  }
}

TEST(StreamSlack, IsZeroWithoutStreamsThatCanBeLate) {
  StreamSlack slack;
  slack.add(-1);
  slack.sort();

  EXPECT_EQ(slack.violations(1), 0);
}

TEST(StreamSlack, ForgetsTheLastStreams) {
  StreamSlack slack;
  slack.add(0.5);
  slack.sort();
  slack.clear();
  slack.add(2);
  slack.sort();

  EXPECT_DOUBLE_EQ(slack.violations(1), 0.5);
}

}  // namespace
}  // namespace evenkeel::testing
