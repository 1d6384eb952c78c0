#include "evenkeel/stats/render_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

/// A daemon of one pool, one route, one listener and one backend.
struct Daemon : Collector {
  Daemon() {
    label_index.add_route_to_pool(route, pool);
    snapshot.config_loaded = std::chrono::system_clock::time_point(1'700'000'000s);
  }
  MetricsSnapshot collect() override {
    BackendSnapshot reading{.pool = "llama",
                            .backend = "gpu1:8000",
                            .state = "up",
                            .up = true,
                            .inspected = inspected,
                            .totals = metrics_registry.backend_totals(backend),
                            .checks = checks,
                            .polled = polled,
                            .cached_tokens = cached_tokens,
                            .rung = rung,
                            .predicted_wait_seconds = 0.25};
    reading.errors[static_cast<std::size_t>(Fault::queue_timeout)] = 4;
    snapshot.backends.assign(1, reading);
    return snapshot;
  }
  std::string page() { return render_metrics(metrics_registry, *this, "1.2.3"); }
  /// Value of the series that is written exactly so.
  double value(const std::string& series) {
    for (const std::string& line : lines_of(page())) {
      if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
    }
    ADD_FAILURE() << "no series " << series << " in\n" << page();
    return -1;
  }

  MetricsRegistry metrics_registry{2};
  LabelIndex& label_index = metrics_registry.label_index();
  std::uint32_t pool = label_index.pool("llama");
  std::uint32_t route = label_index.route("/v1/**");
  std::uint32_t listener = label_index.listener("public");
  std::uint32_t backend = label_index.backend("llama", "gpu1:8000");
  MetricsSnapshot snapshot;
  bool inspected = false;
  std::string_view rung;
  std::vector<std::pair<std::string_view, std::uint64_t>> checks;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> cached_tokens;
  PolledSnapshot polled;
};

TEST(Metrics, SumOverAllWorkers) {
  Daemon daemon;

  daemon.metrics_registry.worker_metrics(0).count(
      {.pool = 1, .route = 1, .status = 200, .duration = 20ms});
  daemon.metrics_registry.worker_metrics(1).count(
      {.pool = 1, .route = 1, .status = 200, .duration = 3s});

  EXPECT_EQ(daemon.value(R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="200"})"), 2);
  const std::string duration = "evenkeel_request_duration_seconds";
  EXPECT_EQ(daemon.value(duration + R"(_bucket{pool="llama",le="0.01"})"), 0);
  EXPECT_EQ(daemon.value(duration + R"(_bucket{pool="llama",le="0.025"})"), 1);
  EXPECT_EQ(daemon.value(duration + R"(_bucket{pool="llama",le="+Inf"})"), 2);
  EXPECT_DOUBLE_EQ(daemon.value(duration + R"(_sum{pool="llama"})"), 3.02);
  EXPECT_EQ(daemon.value(duration + R"(_count{pool="llama"})"), 2);
}

TEST(Metrics, CountCallsByTheirGrpcStatusOnceThereWasOne) {
  Daemon daemon;
  EXPECT_THAT(daemon.page(), Not(HasSubstr("evenkeel_grpc_responses_total{")));

  daemon.metrics_registry.worker_metrics(0).count({.pool = 1, .route = 1, .status = 200});
  EXPECT_THAT(daemon.page(), Not(HasSubstr("evenkeel_grpc_responses_total{")));
  for (const std::uint8_t status : std::initializer_list<std::uint8_t>{0, 0, 14, 17, 200}) {
    daemon.metrics_registry.worker_metrics(1).count(
        {.pool = 1, .route = 1, .status = 200, .grpc_status = status});
  }

  const std::string series = R"(evenkeel_grpc_responses_total{pool="llama",route="/v1/**")";
  EXPECT_EQ(daemon.value(series + R"(,grpc_status="0"})"), 2);
  EXPECT_EQ(daemon.value(series + R"(,grpc_status="4"})"), 0);
  EXPECT_EQ(daemon.value(series + R"(,grpc_status="14"})"), 1);
  EXPECT_EQ(daemon.value(series + R"(,grpc_status="other"})"), 2);
}

TEST(Metrics, StartAtZero) {
  Daemon daemon;

  for (
      const char* series : {
          R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="200"})",
          R"(evenkeel_requests_total{pool="",route="",code="404"})",
          R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="429"})",
          R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="499"})",
          R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="503"})",
          R"(evenkeel_requests_total{pool="",route="",code="503"})",
          R"(evenkeel_errors_total{pool="llama",reason="queue_full",side="proxy"})",
          R"(evenkeel_errors_total{pool="",reason="no_route",side="client"})",
          R"(evenkeel_retries_total{pool="llama",reason="connect_failed"})",
          R"(evenkeel_retries_total{pool="llama",reason="overloaded"})",
          R"(evenkeel_request_duration_seconds_count{pool="llama"})",
          R"(evenkeel_time_to_first_byte_seconds_count{pool="llama"})",
          R"(evenkeel_wait_seconds_count{pool="llama"})",
          R"(evenkeel_requests_in_flight{pool="llama"})",
          R"(evenkeel_requests_waiting{pool="llama"})",
          R"(evenkeel_connections{listener="public"})",
          R"(evenkeel_connections_total{listener="public"})",
          R"(evenkeel_backend_state{pool="llama",backend="gpu1:8000",state="down"})",
          R"(evenkeel_backend_in_flight{pool="llama",backend="gpu1:8000"})",
          R"(evenkeel_backend_picks_total{pool="llama",backend="gpu1:8000"})",
          R"(evenkeel_backend_errors_total{pool="llama",backend="gpu1:8000",reason="backend_closed"})",
          R"(evenkeel_backend_errors_total{pool="llama",backend="gpu1:8000",reason="stream_error"})",
          R"(evenkeel_backend_errors_total{pool="llama",backend="gpu1:8000",reason="status_5xx"})",
          R"(evenkeel_backend_requests_total{pool="llama",backend="gpu1:8000",code_class="5xx"})",
          R"(evenkeel_backend_time_to_first_byte_seconds_count{pool="llama",backend="gpu1:8000"})",
          R"(evenkeel_backend_links{pool="llama",backend="gpu1:8000",state="idle"})",
          R"(evenkeel_backend_latency_seconds_count{pool="llama",backend="gpu1:8000"})",
          "evenkeel_overhead_seconds_count",
          "evenkeel_pick_duration_seconds_count",
          "evenkeel_request_bytes_total",
          "evenkeel_response_bytes_total",
          "evenkeel_access_log_dropped_total",
          "evenkeel_log_dropped_total",
          "evenkeel_event_loop_lag_seconds",
      }) {
    EXPECT_EQ(daemon.value(series), 0) << series;
  }
}

TEST(Metrics, StartAtZeroForModelsThatTheFileNames) {
  Daemon daemon;
  const std::string labels = R"({pool="llama",model="llama-70b")";
  EXPECT_THAT(daemon.page(), Not(HasSubstr("evenkeel_tokens_total{")));

  daemon.label_index.add_model_to_pool("llama-70b", daemon.pool);

  EXPECT_EQ(daemon.value("evenkeel_tokens_total" + labels + R"(,direction="output"})"), 0);
  EXPECT_EQ(daemon.value("evenkeel_time_to_first_token_seconds_count" + labels + "}"), 0);
  EXPECT_EQ(daemon.value("evenkeel_time_to_first_token_seconds_bucket" + labels + R"(,le="0.04"})"),
            0);
}

TEST(Metrics, StartAtZeroForTokensOfBackendsWhoseResponsesAreRead) {
  Daemon daemon;
  EXPECT_THAT(daemon.page(), Not(HasSubstr("evenkeel_backend_tokens_total{")));

  daemon.inspected = true;

  EXPECT_EQ(
      daemon.value(
          R"(evenkeel_backend_tokens_total{pool="llama",backend="gpu1:8000",direction="input"})"),
      0);
}

TEST(Metrics, StartAtZeroForHandshakesOfListenersWithTls) {
  Daemon daemon;
  EXPECT_THAT(daemon.page(), Not(HasSubstr("evenkeel_tls_handshakes_total{")));

  daemon.snapshot.tls_listeners = {"public"};

  EXPECT_EQ(daemon.value(R"(evenkeel_tls_handshakes_total{listener="public",result="ok"})"), 0);
}

TEST(Metrics, ForgetTheModelsOfAPoolWithThePool) {
  LabelIndex index;
  {
    LabelUses uses(index);
    index.add_model_to_pool("llama-70b", uses.pool("llama"));
    EXPECT_EQ(index.view().pool_models.size(), 1u);
  }
  EXPECT_EQ(index.view().pool_models.size(), 0u);
}

TEST(Metrics, TellOnWhichSideARequestFailed) {
  Daemon daemon;
  WorkerMetrics& metrics = daemon.metrics_registry.worker_metrics(0);
  metrics.count_error(daemon.pool, Fault::client_gone);
  metrics.count_error(daemon.pool, Fault::queue_full);
  metrics.count_error(daemon.pool, Fault::connect_failed);

  const std::string series = R"(evenkeel_errors_total{pool="llama",reason=)";
  EXPECT_EQ(daemon.value(series + R"("client_gone",side="client"})"), 1);
  EXPECT_EQ(daemon.value(series + R"("queue_full",side="proxy"})"), 1);
  EXPECT_EQ(daemon.value(series + R"("connect_failed",side="backend"})"), 1);
}

TEST(Metrics, HaveTheVersionsOfPoolsThatASplitNames) {
  Daemon daemon;
  EXPECT_EQ(daemon.page().find("evenkeel_subset"), std::string::npos);
  daemon.snapshot.pools = {
      {.name = "llama", .subsets = {{.name = "version=v8", .in_rotation = 2, .fallbacks = 7}}}};

  const std::string labels = R"({pool="llama",subset="version=v8"})";
  EXPECT_EQ(daemon.value("evenkeel_subset_in_rotation" + labels), 2);
  EXPECT_EQ(daemon.value("evenkeel_subset_fallbacks_total" + labels), 7);
}

/// As of a pool with `picker: expected-time`.
SchedulerSnapshot some_scheduler() {
  return {.placed = 9,
          .refused = 2,
          .first_tokens = 8,
          .predicted_ttft_sum = 1.5,
          .ttft_sum = 1.25,
          .ttft_error_sum = 0.5,
          .prefill_sum = 3,
          .decode_sum = 40,
          .index_bytes = 1 << 20,
          .shadow = ShadowSnapshot{.picker = "round-robin",
                                   .compared = 7,
                                   .agreed = 5,
                                   .unavailable = 1,
                                   .regret_sum = 0.75,
                                   .gain_sum = 0.125}};
}

TEST(Metrics, HaveWhatTheSchedulerOfAPoolHasDone) {
  Daemon daemon;
  EXPECT_EQ(daemon.page().find("evenkeel_scheduler"), std::string::npos);
  daemon.snapshot.pools = {{.name = "llama", .scheduler = some_scheduler()}, {.name = "other"}};

  const std::string pool = R"({pool="llama"})";
  EXPECT_EQ(daemon.value("evenkeel_scheduler_placed_total" + pool), 9);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_refused_total" + pool), 2);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_first_tokens_total" + pool), 8);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_predicted_first_token_seconds_total" + pool), 1.5);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_first_token_seconds_total" + pool), 1.25);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_first_token_error_seconds_total" + pool), 0.5);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_demand_prefill_seconds_total" + pool), 3);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_demand_decode_seconds_total" + pool), 40);
  EXPECT_EQ(daemon.value("evenkeel_scheduler_index_bytes" + pool), 1 << 20);
  EXPECT_EQ(daemon.page().find(R"(evenkeel_scheduler_placed_total{pool="other"})"),
            std::string::npos);
}

TEST(Metrics, HaveTheRegretOfAShadowPicker) {
  Daemon daemon;
  daemon.snapshot.pools = {{.name = "llama", .scheduler = some_scheduler()}};

  const std::string shadow = R"({pool="llama",picker="round-robin")";
  const std::string choices = "evenkeel_shadow_choices_total" + shadow;
  EXPECT_EQ(daemon.value(choices + R"(,result="same"})"), 5);
  EXPECT_EQ(daemon.value(choices + R"(,result="other"})"), 2);
  EXPECT_EQ(daemon.value(choices + R"(,result="unavailable"})"), 1);
  EXPECT_EQ(daemon.value("evenkeel_shadow_regret_seconds_total" + shadow + "}"), 0.75);
  EXPECT_EQ(daemon.value("evenkeel_shadow_gain_seconds_total" + shadow + "}"), 0.125);

  daemon.snapshot.pools[0].scheduler->shadow.reset();
  EXPECT_EQ(daemon.page().find("evenkeel_shadow"), std::string::npos);
}

TEST(Metrics, HaveTheRungAndTheWaitOfBackendsThatAreScheduled) {
  Daemon daemon;
  EXPECT_EQ(daemon.page().find("evenkeel_backend_rung"), std::string::npos);
  daemon.rung = "assumed_hits";

  const std::string backend = R"({pool="llama",backend="gpu1:8000")";
  EXPECT_EQ(daemon.value("evenkeel_backend_rung" + backend + R"(,rung="assumed_hits"})"), 1);
  EXPECT_EQ(daemon.value("evenkeel_backend_rung" + backend + R"(,rung="cold"})"), 0);
  EXPECT_EQ(daemon.value("evenkeel_backend_predicted_wait_seconds" + backend + "}"), 0.25);
}

TEST(Metrics, ExportTheCollectedSnapshot) {
  Daemon daemon;
  daemon.snapshot.loop_lag = 250us;
  daemon.snapshot.access_log_dropped = 17;
  daemon.snapshot.log_dropped = 18;
  daemon.snapshot.config_reload_ok = false;
  BackendMetrics& backend_metrics =
      daemon.metrics_registry.worker_metrics(1).backend(daemon.backend);
  backend_metrics.links_busy.add(3);
  backend_metrics.count_status(200);
  backend_metrics.count_status(503);
  backend_metrics.count_status(504);
  backend_metrics.first_byte.observe(2s);

  EXPECT_DOUBLE_EQ(daemon.value("evenkeel_event_loop_lag_seconds"), 250e-6);
  EXPECT_EQ(daemon.value("evenkeel_access_log_dropped_total"), 17);
  EXPECT_EQ(daemon.value("evenkeel_log_dropped_total"), 18);
  EXPECT_EQ(daemon.value("evenkeel_config_last_reload_successful"), 0);
  EXPECT_EQ(daemon.value("evenkeel_config_last_reload_success_timestamp_seconds"), 1.7e9);
  const std::string backend = R"({pool="llama",backend="gpu1:8000")";
  EXPECT_EQ(daemon.value("evenkeel_backend_up" + backend + "}"), 1);
  EXPECT_EQ(daemon.value("evenkeel_backend_state" + backend + R"(,state="up"})"), 1);
  EXPECT_EQ(daemon.value("evenkeel_backend_links" + backend + R"(,state="busy"})"), 3);
  EXPECT_EQ(daemon.value("evenkeel_backend_errors_total" + backend + R"(,reason="queue_timeout"})"),
            4);
  EXPECT_EQ(daemon.value("evenkeel_backend_requests_total" + backend + R"(,code_class="2xx"})"), 1);
  EXPECT_EQ(daemon.value("evenkeel_backend_requests_total" + backend + R"(,code_class="5xx"})"), 2);
  EXPECT_EQ(daemon.value("evenkeel_backend_time_to_first_byte_seconds_sum" + backend + "}"), 2);
  EXPECT_THAT(daemon.page(), HasSubstr("evenkeel_build_info{version=\"1.2.3\",compiler=\""));
}

TEST(Metrics, HaveNoSeriesForUnknownValues) {
  Daemon daemon;
  const std::string nothing_known = daemon.page();
  daemon.checks = {{"passed", 7}, {"timeout", 0}};
  daemon.polled.age_seconds = 0.25;
  daemon.polled.waiting = 0;
  daemon.polled.gpu_memory_used_bytes = 64.0 * 1024 * 1024 * 1024;

  for (const char* family : {"health_checks_total", "polled_age_seconds", "waiting_requests",
                             "gpu_memory_used_bytes", "kv_cache_usage_ratio"}) {
    EXPECT_THAT(nothing_known, Not(HasSubstr(std::string("\nevenkeel_backend_") + family + "{")));
  }
  const std::string backend = R"({pool="llama",backend="gpu1:8000")";
  EXPECT_EQ(daemon.value("evenkeel_backend_health_checks_total" + backend + R"(,result="passed"})"),
            7);
  EXPECT_EQ(
      daemon.value("evenkeel_backend_health_checks_total" + backend + R"(,result="timeout"})"), 0);
  EXPECT_EQ(daemon.value("evenkeel_backend_polled_age_seconds" + backend + "}"), 0.25);
  EXPECT_EQ(daemon.value("evenkeel_backend_waiting_requests" + backend + "}"), 0);
  EXPECT_EQ(daemon.value("evenkeel_backend_gpu_memory_used_bytes" + backend + "}"), 68719476736);
  EXPECT_THAT(daemon.page(), Not(HasSubstr("\nevenkeel_backend_kv_cache_usage_ratio{")));
}

TEST(Metrics, IncludeTheProcessMetrics) {
  Daemon daemon;
  const double fds_before = daemon.value("process_open_fds");
  const double started = daemon.value("process_start_time_seconds");

  std::FILE* file = std::tmpfile();

  EXPECT_EQ(daemon.value("process_open_fds"), fds_before + 1);
  EXPECT_GT(daemon.value("process_cpu_seconds_total"), 0);
  EXPECT_GT(daemon.value("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(daemon.value("process_virtual_memory_bytes"),
            daemon.value("process_resident_memory_bytes"));
  EXPECT_GT(daemon.value("process_max_fds"), fds_before);
  EXPECT_EQ(daemon.value("process_start_time_seconds"), started);
  EXPECT_NEAR(started, static_cast<double>(std::time(nullptr)), 3600);
  std::fclose(file);
}

TEST(Metrics, ShowARequestThatNoConfigurationAnnounced) {
  Daemon daemon;
  const auto pool = daemon.label_index.pool("new");

  daemon.metrics_registry.worker_metrics(0).count(
      {.pool = pool, .route = daemon.route, .status = 429});
  daemon.metrics_registry.worker_metrics(0).count({.status = 0});

  EXPECT_EQ(daemon.value(R"(evenkeel_requests_total{pool="new",route="/v1/**",code="429"})"), 1);
  EXPECT_EQ(daemon.value(R"(evenkeel_requests_total{pool="",route="",code="0"})"), 1);
  EXPECT_THAT(daemon.page(), Not(HasSubstr(R"(pool="new",route="/v1/**",code="200")")));
}

TEST(Metrics, ShowTokensAndTimesByModel) {
  Daemon daemon;
  const auto model = daemon.label_index.model("llama");
  for (unsigned worker = 0; worker < 2; ++worker) {
    ModelMetrics& metrics =
        daemon.metrics_registry.worker_metrics(worker).model(daemon.pool, model);
    metrics.tokens.add(TokenDirection::input, 100);
    metrics.tokens.add(TokenDirection::cached, 64);
    metrics.first_token.observe(30ms);
    metrics.per_output_token.observe(20ms);
    metrics.gap.observe(7ms);
  }
  const std::string labels = R"(pool="llama",model="llama")";

  EXPECT_EQ(daemon.value("evenkeel_tokens_total{" + labels + R"(,direction="input"})"), 200);
  EXPECT_EQ(daemon.value("evenkeel_tokens_total{" + labels + R"(,direction="output"})"), 0);
  EXPECT_EQ(daemon.value("evenkeel_tokens_total{" + labels + R"(,direction="cached"})"), 128);
  EXPECT_EQ(
      daemon.value("evenkeel_time_to_first_token_seconds_bucket{" + labels + R"(,le="0.04"})"), 2);
  EXPECT_EQ(
      daemon.value("evenkeel_time_per_output_token_seconds_bucket{" + labels + R"(,le="0.01"})"),
      0);
  EXPECT_NEAR(daemon.value("evenkeel_time_per_output_token_seconds_sum{" + labels + "}"), 0.04,
              1e-9);
  EXPECT_EQ(daemon.value("evenkeel_inter_token_gap_seconds_count{" + labels + "}"), 2);
}

TEST(Metrics, ShowPredictedBesideReportedCachedTokens) {
  Daemon daemon;
  const std::string name = "evenkeel_backend_cached_prompt_tokens_total";
  EXPECT_THAT(daemon.page(), Not(HasSubstr(name + "{")));

  daemon.cached_tokens = {1200, 1152};

  const std::string labels = R"({pool="llama",backend="gpu1:8000",source=)";
  EXPECT_EQ(daemon.value(name + labels + R"("predicted"})"), 1200);
  EXPECT_EQ(daemon.value(name + labels + R"("reported"})"), 1152);
}

TEST(Metrics, ShowTenantsOnlyWhereThereAreSome) {
  Daemon daemon;
  EXPECT_THAT(daemon.page(), Not(HasSubstr("tenant")));
  LabelUses uses(daemon.label_index);
  const std::uint32_t acme = uses.tenant("acme");

  daemon.metrics_registry.worker_metrics(0).tenant(acme).requests.add();
  daemon.metrics_registry.worker_metrics(1).tenant(acme).requests.add();
  daemon.metrics_registry.worker_metrics(1).tenant(LabelIndex::other_tenant).requests.add();
  daemon.metrics_registry.worker_metrics(1).tenant(acme).tokens.add(TokenDirection::output, 40);

  EXPECT_EQ(daemon.value(R"(evenkeel_tenant_requests_total{tenant="acme"})"), 2);
  EXPECT_EQ(daemon.value(R"(evenkeel_tenant_requests_total{tenant="other"})"), 1);
  const std::string tokens = "evenkeel_tenant_tokens_total{tenant=";
  EXPECT_EQ(daemon.value(tokens + R"("acme",direction="output"})"), 40);
  EXPECT_EQ(daemon.value(tokens + R"("other",direction="input"})"), 0);
}

TEST(Metrics, EscapeConfiguredNames) {
  Daemon daemon;

  daemon.label_index.pool("a\"b\\c\nd");

  EXPECT_EQ(daemon.value(R"(evenkeel_requests_in_flight{pool="a\"b\\c\nd"})"), 0);
}

std::set<std::string> families_of(const std::string& page) {
  std::set<std::string> families;
  for (const std::string& line : lines_of(page)) {
    if (!line.starts_with("# TYPE ")) continue;
    families.insert(line.substr(7, line.rfind(' ') - 7));
  }
  return families;
}

TEST(Metrics, AreAllDocumented) {
  Daemon daemon;
  daemon.snapshot.pools = {{.name = "llama", .scheduler = some_scheduler()}};
  daemon.rung = "cold";
  const std::string documentation = contents_of(EVENKEEL_SOURCE_DIR "/docs/metrics.md");
  const auto families = families_of(daemon.page());

  EXPECT_GT(families.size(), 30u);
  for (const std::string& family : families) {
    EXPECT_THAT(documentation, HasSubstr("`" + family + "`"));
  }
}

TEST(Metrics, PassPromtoolCheck) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here";
  Daemon daemon;
  daemon.snapshot.pools = {{.name = "llama", .scheduler = some_scheduler()}};
  daemon.rung = "cold";
  daemon.metrics_registry.worker_metrics(0).count(
      {.pool = 1, .route = 1, .status = 200, .duration = 20ms});
  const TemporaryDirectory folder;
  std::ofstream(folder / "page") << daemon.page();

  const std::string command =
      "promtool check metrics < " + (folder / "page") + " > " + (folder / "said") + " 2>&1";
  const int status = std::system(command.c_str());

  EXPECT_EQ(WEXITSTATUS(status), 0) << contents_of(folder / "said");
  EXPECT_EQ(contents_of(folder / "said"), "");
}

TEST(Metrics, CanBeRenderedWhileWorkersCount) {
  constexpr int requests = 20'000;
  Daemon daemon;
  std::atomic<unsigned> done{0};
  const auto work = [&](unsigned worker) {
    WorkerMetrics& worker_metrics = daemon.metrics_registry.worker_metrics(worker);
    for (int i = 0; i < requests; ++i) {
      const auto pool = static_cast<std::uint32_t>(1 + i % 50);
      worker_metrics.pool(pool).in_flight.add();
      worker_metrics.count(
          {.pool = pool, .route = pool, .status = 200 + i % 300, .duration = 1us * i});
      worker_metrics.count_error(pool, Fault::backend_closed);
      worker_metrics.pool(pool).in_flight.remove();
    }
    done.fetch_add(1);
  };
  for (int i = 1; i <= 50; ++i) {
    daemon.label_index.add_route_to_pool(daemon.label_index.route(std::to_string(i)),
                                         daemon.label_index.pool(std::to_string(i)));
  }

  std::thread one(work, 0);
  std::thread other(work, 1);
  while (done.load() < 2) ASSERT_THAT(daemon.page(), HasSubstr("evenkeel_requests_total"));
  one.join();
  other.join();

  double total = 0;
  for (const std::string& line : lines_of(daemon.page())) {
    if (line.starts_with("evenkeel_requests_total{"))
      total += std::stod(line.substr(line.rfind(' ')));
  }
  EXPECT_EQ(total, 2 * requests);
}

}  // namespace
}  // namespace evenkeel::testing
