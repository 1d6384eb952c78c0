#include "cli/admin_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/admin/client.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/text_table.h"

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
           "latency": {"ttft_seconds": 0.0123, "ttft_p99_seconds": 0.5, "tpot_seconds": 0.02,
                       "e2e_seconds": 2.5, "failures_per_second": 0},
           "polled": {"running": 2, "waiting": 0, "kv_cache_ratio": 0.375,
                      "gpu_utilization_ratio": null, "gpu_memory_used_bytes": 68719476736,
                      "gpu_memory_total_bytes": 85899345920}},
          {"id": "gpu2:8000", "pool": "chat", "state": "down", "since": "2026-11-21T17:10:00Z",
           "weight": 1, "in_flight": 0, "picks_total": )" +
      std::to_string(second_picks) + R"(, "errors_total": 12345, "reason": "timeout",
           "latency": {"ttft_seconds": null, "ttft_p99_seconds": null, "tpot_seconds": null,
                       "e2e_seconds": null, "failures_per_second": 3.14}, "polled": {}}])");
}

constexpr double now = 1795281203;  // 2026-11-21T17:13:23Z

TEST(AdminText, WritesJsonAsItWasRead) {
  const std::string text = R"({"a":[1,2.5,null,true],"b":{"c":"x\"y"},"d":[]})";
  EXPECT_EQ(json_text(json(text)), text);
}

TEST(AdminText, FormatsTimesAndAmountsBriefly) {
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
      backends_text(backends(100, 0), {.now = now}),
      ElementsAre(
          "POOL  BACKEND    STATE     FOR  WEIGHT  IN FLIGHT  PICKS  ERRORS  FAIL/S    TTFT  "
          "TTFT P99    TPOT    E2E  RUN  WAIT   KV  GPU      VRAM  WHY",
          "chat  gpu1:8000  up      1m 0s       3          2    100       0       0  12.3ms  "
          "   500ms  20.0ms  2.50s    2     0  38%    -  64.0/80G",
          "chat  gpu2:8000  down   3m 23s       1          0      0   12.3k     3.1       -  "
          "       -       -      -    -     -    -    -         -  timeout"));
}

TEST(AdminText, ShowsWhatASchedulerExpectsWhereThereIsOne) {
  const JsonValue backends = json(
      R"([{"pool": "chat", "id": "a", "state": "up",
           "forecast": {"confidence": "assumed_hits", "wait_seconds": 0.25}},
          {"pool": "other", "id": "b", "state": "up", "forecast": null}])");

  const Lines lines = backends_text(backends, {.now = now});

  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], ::testing::HasSubstr("BEGINS IN  CONFIDENCE"));
  EXPECT_THAT(lines[1], ::testing::HasSubstr("250ms  assumed_hits"));
  EXPECT_THAT(lines[2], ::testing::HasSubstr("-  -"));
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
           "in_flight": 3, "waiting": 4, "saturation": 0.5,
           "subsets": [{"name": "version=v8", "backends": {"up": 0, "total": 1}, "in_flight": 2,
                        "picks_total": 9, "fallbacks_total": 5}]}])");

  EXPECT_THAT(
      status_text(status, pools),
      ElementsAre("evenkeel 1.2.3, up 1m 15s, draining",
                  "a.yaml (abc), loaded 2026-11-21T17:12:23Z",
                  "the last reload was rejected, the configuration above stays active:",
                  "  a.yaml:3:5: error: pools[0]: unknown key; did you mean 'name'?",
                  "  a.yaml: error: no such file", "workers 2, connections 7, requests in flight 3",
                  "", "POOL          PICKER    UP  OF  IN FLIGHT  WAITING  FULL",
                  "chat          weighted   1   2          3        4   50%",
                  "  version=v8             0   1          2"));
}

TEST(AdminText, ShowsTheBudgetOfWhichMostIsUsed) {
  const JsonValue pools = json(R"([
      {"name": "own", "picker": "weighted", "budget": []},
      {"name": "hosted", "picker": "weighted", "unavailable": "down", "budget": [
          {"limit": "10 tokens per day", "used_ratio": 0.1},
          {"limit": "a cost of 500 per month", "used_ratio": 0.75}]}])");

  const Lines lines = status_text(json("{}"), pools);

  ASSERT_GE(lines.size(), 3u);
  EXPECT_THAT(lines[lines.size() - 3], HasSubstr("FULL  BUDGET USED"));
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("-"));
  EXPECT_THAT(lines.back(), HasSubstr("75% of a cost of 500 per month  down"));
}

TEST(AdminText, ToleratesDocumentsOfAnotherVersion) {
  const JsonValue empty = json("{}");
  EXPECT_FALSE(status_text(empty, empty).empty());
  EXPECT_EQ(backends_text(empty, {.now = now}).size(), 1u);
  EXPECT_EQ(backends_text(json("[{}, 7]"), {.now = now}).size(), 3u);
}

// States of backends b0, b1 ... with as many requests in flight as given.
JsonValue backends_in(const std::vector<std::pair<std::string, int>>& states) {
  std::string text;
  for (std::size_t i = 0; i < states.size(); ++i) {
    text += (i == 0 ? "[" : ",") + std::string(R"({"pool": "chat", "id": "b)") + std::to_string(i) +
            R"(", "state": ")" + states[i].first + R"(", "in_flight": )" +
            std::to_string(states[i].second) + R"(, "reason": "because"})";
  }
  return json(text + "]");
}

// The first word of each row but the heading's, with the pool dropped.
std::vector<std::string> ids(const Lines& lines) {
  std::vector<std::string> ids;
  for (std::size_t i = 1; i < lines.size(); ++i) ids.push_back(lines[i].substr(6, 2));
  return ids;
}

TEST(BackendsText, ListsProblemsFirstThenByLoad) {
  const JsonValue document = backends_in(
      {{"up", 1}, {"standby", 0}, {"down", 0}, {"up", 7}, {"draining", 3}, {"starting", 0}});

  EXPECT_THAT(ids(backends_text(document, {.now = now, .order = BackendOrder::state})),
              ElementsAre("b2", "b5", "b4", "b3", "b0", "b1"));
  EXPECT_THAT(ids(backends_text(document, {.now = now, .order = BackendOrder::in_flight})),
              ElementsAre("b3", "b4", "b0", "b1", "b2", "b5"));
  EXPECT_THAT(ids(backends_text(document, {.now = now})),
              ElementsAre("b0", "b1", "b2", "b3", "b4", "b5"));
}

TEST(BackendsText, SortsUnknownValuesLast) {
  const JsonValue document = json(
      R"([{"id": "b0", "pool": "chat", "latency": {"ttft_seconds": null}},
          {"id": "b1", "pool": "chat", "latency": {"ttft_seconds": 0.5}},
          {"id": "b2", "pool": "chat", "latency": {"ttft_seconds": 2}}])");

  EXPECT_THAT(ids(backends_text(document, {.now = now, .order = BackendOrder::ttft})),
              ElementsAre("b2", "b1", "b0"));
}

TEST(BackendsText, KeepsStateAndReasonInNarrowTerminals) {
  const std::vector<double> rates = {1, 2};
  for (const std::size_t width : {20u, 40u, 70u, 100u, 132u, 200u}) {
    const Lines lines =
        backends_text(backends(100, 0), {.now = now, .rates = rates, .width = width});

    EXPECT_THAT(lines[0], testing::ContainsRegex("BACKEND +STATE.* WHY$")) << width;
    EXPECT_THAT(lines[2], testing::ContainsRegex(" down .* timeout$|gpu2.* down +timeout$"));
    if (width >= 70) {
      EXPECT_LE(display_width(lines[2]), width);
    }
  }
  EXPECT_THAT(backends_text(backends(100, 0), {.now = now, .rates = rates, .width = 70}),
              ElementsAre("POOL  BACKEND    STATE     FOR  REQ/S  IN FLIGHT    TTFT  WHY",
                          "chat  gpu1:8000  up      1m 0s      1          2  12.3ms",
                          "chat  gpu2:8000  down   3m 23s      2          0       -  timeout"));
}

TEST(BackendsText, OrdersHaveNames) {
  for (const std::string& name : backend_order_names()) {
    EXPECT_EQ(to_string(backend_order(name).value()), name);
  }
  EXPECT_EQ(backend_order("colour"), std::nullopt);
  EXPECT_EQ(next_order(BackendOrder::state), BackendOrder::in_flight);
  EXPECT_EQ(next_order(BackendOrder::backend), BackendOrder::daemon);
}

TEST(PercentEncoded, EncodesAllButUnreserved) {
  EXPECT_EQ(percent_encoded("[::1]:8000@a b/%-._~"), "%5B%3A%3A1%5D%3A8000%40a%20b%2F%25-._~");
}

}  // namespace
}  // namespace evenkeel
