#include "cli/admin_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/admin_client.h"
#include "cli/text_table.h"
#include "cli/top_view.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

JsonValue json(std::string_view text) {
  auto document = parse_json(text);
  EXPECT_TRUE(document.ok()) << text;
  return std::move(*document);
}

JsonValue backends(int first_picks, int second_picks) {
  return json(
      R"([{"id": "gpu1:8000", "pool": "chat", "state": "up", "since": "2026-11-21T17:12:23Z",
           "weight": 3, "in_flight": 2, "picks_total": )" +
      std::to_string(first_picks) + R"(, "errors_total": 0, "reason": null,
           "latency": {"ttft_seconds": 0.0123, "e2e_seconds": 2.5},
           "polled": {"running": 2, "waiting": 0, "kv_cache_ratio": 0.375,
                      "gpu_utilization_ratio": null, "gpu_memory_used_bytes": 68719476736,
                      "gpu_memory_total_bytes": 85899345920}},
          {"id": "gpu2:8000", "pool": "chat", "state": "down", "since": "2026-11-21T17:10:00Z",
           "weight": 1, "in_flight": 0, "picks_total": )" +
      std::to_string(second_picks) + R"(, "errors_total": 12345, "reason": "timeout",
           "latency": {"ttft_seconds": null, "e2e_seconds": null}, "polled": {}}])");
}

constexpr double now = 1795281203;  // 2026-11-21T17:13:23Z

TEST(AdminText, FormatsTimesAndAmountsBriefly) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.9), "59s");
  EXPECT_EQ(format_duration(312), "5m 12s");
  EXPECT_EQ(format_duration(7260), "2h 1m");
  EXPECT_EQ(format_duration(273'600), "3d 4h");
  EXPECT_EQ(amount_text(0), "0");
  EXPECT_EQ(amount_text(17.25), "17.2");
  EXPECT_EQ(amount_text(999), "999");
  EXPECT_EQ(amount_text(1000), "1.00k");
  EXPECT_EQ(amount_text(12'345), "12.3k");
  EXPECT_EQ(amount_text(999'900), "1.00M");
  EXPECT_EQ(amount_text(3.4e9), "3.40G");
  EXPECT_EQ(latency_text(0.0123), "12.3ms");
  EXPECT_EQ(latency_text(0.25), "250ms");
  EXPECT_EQ(latency_text(2.5), "2.50s");
  EXPECT_EQ(latency_text(312), "5m 12s");
  EXPECT_EQ(latency_text(std::nullopt), "-");
  EXPECT_EQ(percent_text(0.375), "38%");
}

TEST(AdminText, PrintsOneRowPerBackend) {
  EXPECT_THAT(
      backends_text(backends(100, 0), now),
      ElementsAre(
          "POOL  BACKEND    STATE     FOR  WEIGHT  IN FLIGHT  PICKS  ERRORS    TTFT    E2E  RUN  "
          "WAIT   KV  GPU      VRAM  WHY",
          "chat  gpu1:8000  up      1m 0s       3          2    100       0  12.3ms  2.50s    2  "
          "   0  38%    -  64.0/80G",
          "chat  gpu2:8000  down   3m 23s       1          0      0   12.3k       -      -    -  "
          "   -    -    -         -  timeout"));
}

TEST(AdminText, PrintsTheProblemsOfARejectedReload) {
  const JsonValue status = json(
      R"({"version": "1.2.3", "uptime_seconds": 75, "draining": true, "workers": 2,
          "connections": 7, "requests_in_flight": 3,
          "config": {"file": "a.yaml", "hash": "abc", "loaded_at": "2026-11-21T17:12:23Z",
                     "last_reload_ok": false,
                     "errors": [{"file": "a.yaml", "line": 3, "column": 5, "path": "pools[0]",
                                 "message": "unknown key", "help": "did you mean 'name'?"},
                                {"file": "a.yaml", "line": 0, "column": 0, "path": "",
                                 "message": "no such file", "help": ""}]}})");
  const JsonValue pools = json(
      R"([{"name": "chat", "picker": "weighted", "backends": {"up": 1, "total": 2},
           "in_flight": 3, "waiting": 4, "saturation": 0.5}])");

  EXPECT_THAT(
      status_text(status, pools),
      ElementsAre("evenkeel 1.2.3, up 1m 15s, draining",
                  "a.yaml (abc), loaded 2026-11-21T17:12:23Z",
                  "the last reload was refused, and that file is not the one that runs:",
                  "  a.yaml:3:5: error: pools[0]: unknown key; did you mean 'name'?",
                  "  a.yaml: error: no such file", "workers 2, connections 7, requests in flight 3",
                  "", "POOL  PICKER    UP  OF  IN FLIGHT  WAITING  FULL",
                  "chat  weighted   1   2          3        4   50%"));
}

TEST(AdminText, ToleratesDocumentsOfAnotherVersion) {
  const JsonValue empty = json("{}");
  EXPECT_FALSE(status_text(empty, empty).empty());
  EXPECT_EQ(backends_text(empty, now).size(), 1u);
  EXPECT_EQ(backends_text(json("[{}, 7]"), now).size(), 3u);
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
  EXPECT_THAT(top_lines(std::nullopt, snapshot), Not(testing::Contains(HasSubstr("REQ/S"))));

  TopSnapshot before{.at = snapshot.at - std::chrono::seconds(1), .backends = backends(60, 50)};
  const auto lines = top_lines(before, snapshot);

  EXPECT_THAT(lines.front(), HasSubstr(", 40 requests/s"));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("REQ/S")));
}

TEST(Top, FitsTheScreen) {
  const std::vector<std::string> lines = {"first line", "zweite größe", "third", "fourth"};
  EXPECT_EQ(fit(lines, 80, 24), "first line\nzweite größe\nthird\nfourth");
  EXPECT_EQ(fit(lines, 9, 3), "first lin\nzweite gr\n... and 2");
  EXPECT_EQ(fit(lines, 10, 4), "first line\nzweite grö\nthird\nfourth");
  EXPECT_EQ(fit(lines, 80, 1), "... and 4 more");
  EXPECT_EQ(fit({}, 80, 24), "");
}

TEST(TextTable, ReplacesControlCharacters) {
  TextTable table({"NAME", ">N"});
  table.add({"a\x1b[2Jb\n\r\t", "1"});
  table.add(
      {"c\xC2\x9B"
       "d",
       "22"});

  EXPECT_THAT(table.lines(), ElementsAre("NAME        N", "a?[2Jb???   1", "c??d       22"));
}

TEST(PercentEncoded, EncodesAllButUnreserved) {
  EXPECT_EQ(percent_encoded("[::1]:8000@a b/%-._~"), "%5B%3A%3A1%5D%3A8000%40a%20b%2F%25-._~");
}

}  // namespace
}  // namespace evenkeel
