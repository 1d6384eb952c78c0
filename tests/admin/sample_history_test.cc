// What the daemon remembers of the last 15 minutes, and the documents of it.
#include "admin/sample_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
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
  JsonValue document(std::string_view metric) {
    return *parse_json(*history_.document(metric)->reply_to({}, "application/json").body);
  }
  /// Replaces the pools by one with these backends.
  void reload(std::span<const std::string> addresses) {
    const std::string file =
        fmt::format("pools: [{{name: chat, backends: ['{}']}}]", fmt::join(addresses, "', '"));
    const auto pools = build_pools(read_config(file, "test.yaml", {}).config);
    ASSERT_TRUE(pools.ok());
    status_.update([&](RuntimeStatus& status) { status.pool_set = *pools; });
  }
  /// Replaces the pools by one with so many backends.
  void reload(std::size_t count) {
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < count; ++i) {
      addresses.push_back(fmt::format("127.0.{}.{}:8000", i / 250, i % 250 + 1));
    }
    reload(addresses);
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
  EXPECT_EQ(history_.document("nonsense"), nullptr);
}

TEST_F(History, HasNoValueForABackendThatIsOutOfRotation) {
  sample(1000);
  backend(0, 0).state().take_out(OutOfRotation::unhealthy);
  sample(1001);

  EXPECT_THAT(last_values(document("in_flight")["backends"].items()[0]["values"], 2),
              ElementsAre(0, -1));
}

TEST_F(History, ForgetsTheFutureWhenTheClockIsSetBack) {
  slots(0, 0).try_acquire();
  sample(5000);
  sample(5001);
  slots(0, 0).release();
  sample(4000);

  const JsonValue load = document("in_flight");

  EXPECT_EQ(load["end"].number_text(), "4001");
  EXPECT_THAT(last_values(load["backends"].items()[0]["values"], 2), ElementsAre(-1, 0));
}

TEST_F(History, HasNoRowForABackendThatAReloadRemoves) {
  slots(0, 0).try_acquire();
  sample(1000);
  reload(std::vector<std::string>{"127.0.0.1:9", "127.0.0.1:8001"});
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

TEST_F(History, HasLongerStepsForManyBackends) {
  constexpr std::size_t count = 600;
  reload(count);
  slots(0, 0).try_acquire();
  slots(0, 0).try_acquire();
  sample(1000);
  slots(0, 0).release();
  sample(1001);

  const JsonValue load = document("in_flight");
  const JsonValue& values = load["backends"].items()[0]["values"];

  EXPECT_EQ(load["step_seconds"].number_text(), "3");
  EXPECT_LE(count * values.items().size(), SampleHistory::max_document_values);
  EXPECT_THAT(last_values(values, 2), ElementsAre(-1, 1.5));
}

TEST_F(History, KeepsLessTimeOfMoreBackends) {
  constexpr std::size_t count = 12'000;
  constexpr std::size_t kept = SampleHistory::max_bytes / (count * sizeof(BackendSample));
  reload(count);
  slots(0, 0).try_acquire();
  for (std::size_t i = 0; i < kept + 10; ++i) sample(1000 + static_cast<std::int64_t>(i));

  const JsonValue load = document("in_flight")["daemon"]["in_flight"];
  const auto known = std::ranges::count_if(
      load.items(), [](const JsonValue& value) { return value.number().has_value(); });

  EXPECT_LE(known, kept);
  EXPECT_GE(known, kept - 20) << "the names take room too";
}

TEST_F(History, IsServedByTheApi) {
  EXPECT_THAT(get("/api/v1/history?metric=kv_cache_ratio").body,
              HasSubstr(R"({"metric":"kv_cache_ratio","end":)"));
  EXPECT_EQ(get("/api/v1/history", "accept-encoding: gzip\r\n").fields["content-encoding"], "gzip");
  EXPECT_EQ(get("/api/v1/history").fields.count("content-encoding"), 0U);
  EXPECT_EQ(get("/api/v1/history?metric=nonsense").status, 404);
  EXPECT_EQ(get("/api/v1/events").body, "[]\n");
}

}  // namespace
}  // namespace evenkeel::testing
