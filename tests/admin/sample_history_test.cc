// What the daemon remembers of the last 15 minutes, and the documents of it.
#include "admin/sample_history.h"

#include <chrono>
#include <vector>

#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The history of two pools whose clock the test sets.
class History : public RunningAdmin {
 protected:
  History() { start(); }

  void sample(std::int64_t second) {
    const RuntimeView view(runtime_);
    history_.sample(view, std::chrono::system_clock::time_point(std::chrono::seconds(second)));
  }
  JsonValue document(std::string_view metric) const {
    return *parse_json(*history_.document(metric));
  }
  static std::vector<double> last_values(const JsonValue& series, std::size_t count) {
    std::vector<double> values;
    const auto& items = series.items();
    for (std::size_t i = items.size() - count; i < items.size(); ++i) {
      values.push_back(items[i].number().value_or(-1));
    }
    return values;
  }
  Slots& slots(std::size_t pool, std::size_t number) const { return backend(pool, number).slots(); }

  SampleHistory history_;
};

TEST_F(History, HasTheLoadOfEachSecondAndGapsBetween) {
  sample(1000);
  slots(0, 0).try_acquire();
  slots(0, 0).try_acquire();
  sample(1001);
  sample(1003);

  const JsonValue load = document("in_flight");
  const JsonValue& first = load["backends"].items().front();

  EXPECT_EQ(load["end"].number_text(), "1004");
  EXPECT_EQ(load["step_seconds"].number_text(), "1");
  EXPECT_EQ(load["backends"].items().size(), 4U);
  EXPECT_EQ(first["pool"].text(), "chat");
  EXPECT_EQ(first["id"].text(), "127.0.0.1:8001");
  EXPECT_EQ(first["values"].items().size(), SampleHistory::max_seconds);
  EXPECT_THAT(last_values(first["values"], 5), ElementsAre(-1, 0, 2, -1, 2));
  EXPECT_THAT(last_values(document("picks_per_second")["backends"].items()[0]["values"], 4),
              ElementsAre(0, 2, -1, 0));
  EXPECT_THAT(last_values(load["daemon"]["in_flight"], 4), ElementsAre(0, 2, -1, 2));
  EXPECT_FALSE(history_.document("nonsense").has_value());
}

TEST_F(History, HasNoValueForABackendThatIsOutOfRotation) {
  sample(1000);
  backend(0, 0).state().take_out(OutOfRotation::unhealthy);
  sample(1001);

  EXPECT_THAT(last_values(document("in_flight")["backends"].items()[0]["values"], 2),
              ElementsAre(0, -1));
}

TEST_F(History, RemembersChangesOfStateAndReloads) {
  sample(1000);
  backend(0, 0).state().take_out(OutOfRotation::draining);
  sample(1001);
  status_.update([](RuntimeStatus& status) {
    status.loaded_at = std::chrono::system_clock::time_point(std::chrono::hours(1));
  });
  sample(1002);
  status_.update([](RuntimeStatus& status) {
    status.loaded_at += std::chrono::hours(1);
    status.reload_problems = {{.message = "no such key"}};
  });
  sample(1003);

  EXPECT_EQ(json_text(history_.events()),
            R"([{"second":1003,"kind":"reload_rejected","reason":"no such key"},)"
            R"({"second":1003,"kind":"reload"},)"
            R"({"second":1001,"kind":"state","pool":"chat","backend":"127.0.0.1:8001",)"
            R"("from":"up","to":"draining","reason":"drained by an operator"}])");
  EXPECT_EQ(history_.overview()["events_total"].number_text(), "3");
}

TEST_F(History, HasNoRowForABackendThatAReloadRemoves) {
  slots(0, 0).try_acquire();
  sample(1000);
  const LoadResult changed = read_config(
      "pools: [{name: chat, backends: ['127.0.0.1:9', '127.0.0.1:8001']}]\n", "test.yaml", {});
  const auto pools = build_pools(changed.config);
  ASSERT_TRUE(pools.ok());
  status_.update([&](RuntimeStatus& status) { status.pool_set = *pools; });
  sample(1001);

  const JsonValue rows = document("in_flight")["backends"];

  ASSERT_EQ(rows.items().size(), 2u);
  EXPECT_EQ(rows.items()[0]["id"].text(), "127.0.0.1:9");
  EXPECT_THAT(last_values(rows.items()[0]["values"], 2), ElementsAre(-1, 0));
  EXPECT_THAT(last_values(rows.items()[1]["values"], 2), ElementsAre(1, 0));
}

TEST_F(History, ForgetsWhatIsOlderThanFifteenMinutes) {
  slots(0, 0).try_acquire();
  sample(1000);
  slots(0, 0).release();
  for (std::int64_t second = 1001; second <= 2000; ++second) sample(second);

  const JsonValue values = document("in_flight")["backends"].items()[0]["values"];
  for (const JsonValue& value : values.items()) EXPECT_EQ(value.number().value_or(-1), 0);
}

TEST_F(History, KnowsRatesErrorsAndTimesToTheFirstToken) {
  sample(1000);
  WorkerMetrics& metrics = metrics_registry_.worker_metrics(0);
  for (int i = 0; i < 100; ++i) {
    metrics.count({.status = 200});
    metrics.model(0, 0).first_token.observe(std::chrono::milliseconds(i < 90 ? 90 : 900));
  }
  metrics.count_error(0, Fault::no_backend);
  metrics.count_error(0, Fault::no_backend);
  metrics.count_error(0, Fault::client_gone);
  sample(1001);

  const JsonValue overview = history_.overview();

  EXPECT_EQ(overview["second"].number_text(), "1001");
  EXPECT_EQ(overview["requests_per_second"].number(), 100);
  EXPECT_EQ(overview["errors_per_second"].number(), 2);
  EXPECT_NEAR(overview["ttft_p50_seconds"].number().value_or(0), 0.09, 0.01);
  EXPECT_NEAR(overview["ttft_p99_seconds"].number().value_or(0), 0.95, 0.06);
  EXPECT_EQ(json_text(overview["errors"]),
            R"([{"reason":"no_backend","side":"backend","count":2},)"
            R"({"reason":"client_gone","side":"client","count":1}])");
}

TEST_F(History, IsServedByTheApi) {
  EXPECT_THAT(get("/api/v1/history?metric=kv_cache_ratio").body,
              HasSubstr(R"({"metric":"kv_cache_ratio","end":)"));
  EXPECT_EQ(get("/api/v1/history", "accept-encoding: gzip\r\n").fields["content-encoding"], "gzip");
  EXPECT_EQ(get("/api/v1/history?metric=nonsense").status, 404);
  EXPECT_EQ(get("/api/v1/events").body, "[]\n");
}

}  // namespace
}  // namespace evenkeel::testing
