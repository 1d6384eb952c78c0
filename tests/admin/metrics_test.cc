#include "admin/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "built_pools.h"
#include "evenkeel/config/load.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view one_backend = "pools: [{name: llama, backends: ['127.0.0.1:8000']}]";
constexpr std::string_view scheduled =
    "pools: [{name: llama, backends: ['127.0.0.1:8000'], "
    "picker: {name: expected-time, index_memory: 1MiB, shadow_picker: round-robin}}]";

/// A daemon of one pool with one backend, without threads.
class MetricsOfPools : public ::testing::Test {
 protected:
  void configure(std::string_view config) {
    LoadResult loaded = read_config(config, "test.yaml", {});
    ASSERT_THAT(loaded.problems, IsEmpty());
    auto pool_set = build_pools(loaded.config);
    ASSERT_TRUE(pool_set.ok());
    status_.update([&](RuntimeStatus& status) {
      status.version = "1.2.3";
      status.loaded_at = std::chrono::system_clock::time_point(1'700'000'000s);
      status.config = std::make_shared<const Config>(loaded.config);
      status.pool_set = *pool_set;
    });
  }
  std::string page() const { return render_metrics(runtime_); }
  /// Value of the series that is written exactly so.
  double value(const std::string& series) const {
    for (const std::string& line : lines_of(page())) {
      if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
    }
    ADD_FAILURE() << "no series " << series << " in\n" << page();
    return -1;
  }
  const PoolState& pool() const { return *status_.snapshot()->pool_set->pools()[0].state; }
  SharedBackend& shared() const { return pool().backends()[0]->shared(); }

  const std::string backend_ = R"({pool="llama",backend="127.0.0.1:8000")";
  Loop loop_;
  MetricsRegistry metrics_registry_{2};
  LabelUses uses_{metrics_registry_.label_index()};
  const std::uint32_t index_ = uses_.backend("llama", "127.0.0.1:8000");
  RuntimeStatusPublisher status_{RuntimeStatus{}};
  const RuntimeAccess runtime_{.status = &status_,
                               .metrics_registry = &metrics_registry_,
                               .loops = {&loop_},
                               .control_loop = &loop_};
};

TEST_F(MetricsOfPools, TellHowUnevenTheLoadIs) {
  configure(
      "pools: [{name: llama, backends: [{address: '127.0.0.1:8000', weight: 2}, "
      "'127.0.0.1:8001', '127.0.0.1:8002']}]");
  EXPECT_THAT(page(), Not(HasSubstr("evenkeel_balance_cv{")));

  const Backends& backends = pool().backends();
  backends[2]->state().take_out(OutOfRotation::unhealthy);
  for (int i = 0; i < 2; ++i) backends[0]->slots().try_acquire();
  backends[1]->slots().try_acquire();
  EXPECT_EQ(value(R"(evenkeel_balance_cv{pool="llama"})"), 0);

  for (int i = 0; i < 2; ++i) backends[1]->slots().try_acquire();
  EXPECT_EQ(value(R"(evenkeel_balance_cv{pool="llama"})"), 0.5);
}

TEST_F(MetricsOfPools, ShowLimitsAndBudgetsOnceForEachUnitAndPeriod) {
  configure(one_backend);
  EXPECT_THAT(page(), Not(HasSubstr("evenkeel_tenant_limit")));
  EXPECT_THAT(page(), Not(HasSubstr("evenkeel_pool_budget")));

  const std::string hash(64, 'a');
  configure(
      "pools: [{name: llama, backends: ['127.0.0.1:8000'], budget: {tokens: 10M/day, cost: "
      "[500/month, 250.5/month]}}]\n"
      "tenants: [{name: acme, keys_sha256: [" +
      hash + "], limits: {concurrent: 4, requests: [5/s, 7/s, 5/s]}}]\n");
  const auto snapshot = status_.snapshot();
  const LimitTable budget(*snapshot->config, snapshot->config->pools[0]);
  snapshot->pool_set->limit_use()->of_file.take(budget.of_all()[1].quota, 1'250'000,
                                                QuotaTime::current());
  snapshot->pool_set->limit_use()->of_file.take(budget.of_all()[2].quota, 750'000,
                                                QuotaTime::current());

  EXPECT_EQ(value(R"(evenkeel_pool_budget{pool="llama",unit="cost",period="month"})"), 250.5);
  EXPECT_EQ(value(R"(evenkeel_pool_budget_used{pool="llama",unit="cost",period="month"})"), 0.75);
  EXPECT_EQ(value(R"(evenkeel_pool_budget{pool="llama",unit="tokens",period="day"})"), 10'000'000);
  EXPECT_EQ(value(R"(evenkeel_tenant_limit{tenant="acme",unit="requests",period="second"})"), 5);
  EXPECT_EQ(value(R"(evenkeel_tenant_limit_used{tenant="acme",unit="requests",period="second"})"),
            0);
  EXPECT_THAT(page(), HasSubstr(R"(evenkeel_tenant_limit{tenant="acme",unit="concurrent")"));
}

TEST_F(MetricsOfPools, StartAtZero) {
  configure(one_backend);
  for (const char* series : {"in_flight", "picks_total", "time_to_first_byte_seconds_count",
                             "latency_seconds_count", "engine_restarts_total"}) {
    EXPECT_EQ(value(std::string("evenkeel_backend_") + series + backend_ + "}"), 0);
  }
  for (const char* series :
       {R"(state%,state="down"})", R"(errors_total%,reason="backend_closed"})",
        R"(errors_total%,reason="stream_error"})", R"(errors_total%,reason="status_5xx"})",
        R"(requests_total%,code_class="5xx"})", R"(links%,state="idle"})",
        R"(slow%,part="per_token"})", R"(ejections_total%,reason="consecutive"})"}) {
    std::string name = series;
    name.replace(name.find('%'), 1, backend_);
    EXPECT_EQ(value("evenkeel_backend_" + name), 0);
  }
  for (const char* series : {"evenkeel_access_log_dropped_total", "evenkeel_log_dropped_total",
                             "evenkeel_event_loop_lag_seconds"}) {
    EXPECT_EQ(value(series), 0);
  }
  EXPECT_EQ(value(R"(evenkeel_pool_panic{pool="llama"})"), 0);
}

TEST_F(MetricsOfPools, ShowBackendsAsTheyAre) {
  configure(one_backend);
  shared().stats.count_error(Fault::queue_timeout);
  shared().stats.count_failed_response();
  BackendMetrics& metrics = metrics_registry_.worker_metrics(1).backend(index_);
  metrics.links_busy.add(3);
  metrics.count_status(200);
  metrics.count_status(503);
  metrics.count_status(504);
  metrics.first_byte.observe(2s);

  EXPECT_EQ(value("evenkeel_backend_up" + backend_ + "}"), 1);
  EXPECT_EQ(value("evenkeel_backend_state" + backend_ + R"(,state="up"})"), 1);
  EXPECT_EQ(value("evenkeel_backend_links" + backend_ + R"(,state="busy"})"), 3);
  EXPECT_EQ(value("evenkeel_backend_errors_total" + backend_ + R"(,reason="queue_timeout"})"), 1);
  EXPECT_EQ(value("evenkeel_backend_errors_total" + backend_ + R"(,reason="status_5xx"})"), 1);
  EXPECT_EQ(value("evenkeel_backend_requests_total" + backend_ + R"(,code_class="2xx"})"), 1);
  EXPECT_EQ(value("evenkeel_backend_requests_total" + backend_ + R"(,code_class="5xx"})"), 2);
  EXPECT_EQ(value("evenkeel_backend_time_to_first_byte_seconds_sum" + backend_ + "}"), 2);
}

TEST_F(MetricsOfPools, ShowTheDaemon) {
  configure(one_backend);
  status_.update([](RuntimeStatus& status) { status.reload_problems.emplace_back(); });

  EXPECT_EQ(value("evenkeel_config_last_reload_successful"), 0);
  EXPECT_EQ(value("evenkeel_last_upgrade_successful"), 1);
  EXPECT_EQ(value("evenkeel_config_last_reload_success_timestamp_seconds"), 1.7e9);
  EXPECT_THAT(page(), HasSubstr("evenkeel_build_info{version=\"1.2.3\",compiler=\""));
}

TEST_F(MetricsOfPools, HaveNoSeriesForUnknownValues) {
  configure(one_backend);
  const std::string nothing_known = page();
  for (const char* family :
       {"health_checks_total", "polled_age_seconds", "waiting_requests", "gpu_memory_used_bytes",
        "kv_cache_usage_ratio", "tokens_total", "confidence", "cached_prompt_tokens_total"}) {
    EXPECT_THAT(nothing_known, Not(HasSubstr(std::string("\nevenkeel_backend_") + family + "{")));
  }
  for (const char* word : {"evenkeel_affinity", "evenkeel_subset", "evenkeel_scheduler",
                           "evenkeel_shadow", "evenkeel_memory"}) {
    EXPECT_THAT(nothing_known, Not(HasSubstr(word)));
  }

  shared().signals.publish({.waiting = 0, .gpu_memory_used_bytes = 64.0 * (1 << 30)}, Clock::now(),
                           0);
  EXPECT_EQ(value("evenkeel_backend_waiting_requests" + backend_ + "}"), 0);
  EXPECT_EQ(value("evenkeel_backend_gpu_memory_used_bytes" + backend_ + "}"), 68719476736);
  EXPECT_THAT(page(), Not(HasSubstr("\nevenkeel_backend_kv_cache_usage_ratio{")));
}

TEST_F(MetricsOfPools, ShowTokensOfBackendsWhoseResponsesAreRead) {
  configure("pools: [{name: llama, inspect: true, backends: ['127.0.0.1:8000']}]");
  EXPECT_EQ(value("evenkeel_backend_tokens_total" + backend_ + R"(,direction="input"})"), 0);
}

TEST_F(MetricsOfPools, HaveTheVersionsThatASplitNames) {
  configure(
      "pools: [{name: llama, backends: [{address: '127.0.0.1:8000', labels: {version: v8}}]}]\n"
      "routes: [{pool: llama, split: {version=v8: 100}}]");
  const std::string labels = R"({pool="llama",subset="version=v8"})";
  EXPECT_EQ(value("evenkeel_subset_in_rotation" + labels), 1);
  EXPECT_EQ(value("evenkeel_subset_fallbacks_total" + labels), 0);
}

TEST_F(MetricsOfPools, HaveWhatASchedulerHasDoneAndExpects) {
  configure(scheduled);
  const std::string pool = R"({pool="llama"})";
  for (const char* name : {"placed_total", "refused_total", "first_tokens_total",
                           "predicted_first_token_seconds_total", "first_token_seconds_total",
                           "first_token_error_seconds_total", "demand_prefill_seconds_total",
                           "demand_decode_seconds_total"}) {
    EXPECT_EQ(value(std::string("evenkeel_scheduler_") + name + pool), 0);
  }
  EXPECT_GT(value("evenkeel_scheduler_index_bytes" + pool), 0);
  EXPECT_EQ(value("evenkeel_backend_confidence" + backend_ + R"(,confidence="cold"})"), 1);
  EXPECT_EQ(value("evenkeel_backend_confidence" + backend_ + R"(,confidence="confirmed"})"), 0);
  EXPECT_EQ(value("evenkeel_backend_predicted_wait_seconds" + backend_ + "}"), 0);
  const std::string cached = "evenkeel_backend_cached_prompt_tokens_total" + backend_;
  EXPECT_EQ(value(cached + R"(,source="predicted"})"), 0);
  EXPECT_EQ(value(cached + R"(,source="reported"})"), 0);
  const std::string shadow = R"({pool="llama",picker="round-robin")";
  for (const char* result : {"same", "other", "unavailable"}) {
    EXPECT_EQ(value("evenkeel_shadow_choices_total" + shadow + ",result=\"" + result + "\"}"), 0);
  }
  EXPECT_EQ(value("evenkeel_shadow_regret_seconds_total" + shadow + "}"), 0);
  EXPECT_EQ(value("evenkeel_shadow_gain_seconds_total" + shadow + "}"), 0);
}

TEST_F(MetricsOfPools, AreAllDocumented) {
  configure(scheduled);
  const std::string documentation = contents_of(EVENKEEL_SOURCE_DIR "/docs/observability.md");
  std::set<std::string> families;
  for (const std::string& line : lines_of(page())) {
    if (line.starts_with("# TYPE ")) families.insert(line.substr(7, line.rfind(' ') - 7));
  }
  EXPECT_GT(families.size(), 30u);
  for (const std::string& family : families) {
    EXPECT_THAT(documentation, HasSubstr("`" + family + "`"));
  }
}

TEST(MetricsFormat, IsOpenMetricsForClientsThatPreferIt) {
  for (const char* accept : {
           "application/openmetrics-text",
           "application/openmetrics-text; version=1.0.0; charset=utf-8",
           "application/openmetrics-text;version=\"1.0.0\";q=0.5",
           "Application/OpenMetrics-Text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
           "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
           "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
           "application/openmetrics-text;version=0.0.1;q=0.4,"
           "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,"
           "*/*;q=0.1",
           "*/*;q=0.1, application/openmetrics-text;q=0.2, text/*;q=0.1",
       }) {
    EXPECT_EQ(preferred_metrics_format(accept), MetricsFormat::open_metrics) << accept;
  }
  for (const char* accept : {
           "",
           "*/*",
           "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
           "text/plain;version=0.0.4;q=1,*/*;q=0.1",
           "application/openmetrics-text;version=0.0.1",
           "application/openmetrics-text;version=2.0.0",
           "application/openmetrics-text;q=0",
           "application/openmetrics-text;q=0.000, text/plain;q=0",
           "application/openmetrics-text;q=0.2, text/plain;q=0.3",
           "application/openmetrics-text;q=0.2, */*",
           "application/openmetrics-text;q=nan",
           "application/openmetrics-textual",
           ",;,q=1,;;",
       }) {
    EXPECT_EQ(preferred_metrics_format(accept), MetricsFormat::text) << accept;
  }
}

TEST_F(MetricsOfPools, PassPromtoolCheck) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here";
  configure(scheduled);
  const TemporaryDirectory folder;
  std::ofstream(folder / "page") << page();

  const std::string command =
      "promtool check metrics < " + (folder / "page") + " > " + (folder / "said") + " 2>&1";
  const int status = std::system(command.c_str());

  EXPECT_EQ(WEXITSTATUS(status), 0) << contents_of(folder / "said");
  EXPECT_EQ(contents_of(folder / "said"), "");
}

}  // namespace
}  // namespace evenkeel::testing
