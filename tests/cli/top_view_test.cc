#include "cli/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double now = 1795281203;  // 2026-11-21T17:13:23Z

JsonValue backends(int first_picks, int second_picks) {
  return *parse_json(R"([{"id": "gpu1:8000", "pool": "chat", "state": "up", "picks_total": )" +
                     std::to_string(first_picks) +
                     R"(}, {"id": "gpu2:8000", "pool": "chat", "state": "down", "picks_total": )" +
                     std::to_string(second_picks) + "}]");
}

TEST(Top, ComputesRequestsPerSecondBetweenSnapshots) {
  const TopSnapshot before{.at = Instant(std::chrono::seconds(10)), .backends = backends(100, 50)};
  const TopSnapshot after{.at = Instant(std::chrono::seconds(12)), .backends = backends(125, 50)};
  EXPECT_THAT(pick_rates(before, after), ElementsAre(12.5, 0));

  const TopSnapshot restarted{.at = Instant(std::chrono::seconds(14)), .backends = backends(5, 50)};
  EXPECT_THAT(pick_rates(after, restarted), ElementsAre(0, 0)) << "its counters began anew";
}

TEST(Top, ShowsRatesFromTheSecondSnapshotOn) {
  TopSnapshot snapshot{.since_epoch = now, .backends = backends(100, 50)};
  EXPECT_THAT(top_lines(std::nullopt, snapshot, {}), Not(Contains(HasSubstr("REQ/S"))));

  TopSnapshot before{.at = snapshot.at - std::chrono::seconds(1), .backends = backends(60, 50)};
  const auto lines = top_lines(before, snapshot, {});

  EXPECT_THAT(lines.front(), HasSubstr(", 40 requests/s"));
  EXPECT_THAT(lines, Contains(HasSubstr("REQ/S")));
}

TEST(Top, FitsTheScreen) {
  const std::vector<std::string> lines = {"first line", "zweite größe", "third", "fourth"};
  EXPECT_EQ(fit(lines, 80, 24), "first line\nzweite größe\nthird\nfourth");
  EXPECT_EQ(fit(lines, 9, 3), "first lin\nzweite gr\n... and 2");
  EXPECT_EQ(fit(lines, 10, 4), "first line\nzweite grö\nthird\nfourth");
  EXPECT_EQ(fit(lines, 80, 1), "... and 4 more");
  EXPECT_EQ(fit({}, 80, 24), "");
}

TEST(Top, ShowsProblemsFirst) {
  const TopSnapshot snapshot{.since_epoch = now, .backends = backends(100, 50)};
  const auto lines = top_lines(std::nullopt, snapshot, {.width = 70});

  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("gpu2:8000  down"));
  EXPECT_THAT(lines.back(), HasSubstr("gpu1:8000  up"));
}

}  // namespace
}  // namespace evenkeel
