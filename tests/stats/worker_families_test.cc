#include "evenkeel/stats/worker_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <thread>

#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

/// The workers of a daemon of one pool, one route and one listener.
struct Workers {
  Workers() { label_index.add_route_to_pool(route, pool); }
  std::string page() const {
    MetricsPage page;
    add_request_families(page, metrics_registry);
    add_further_families(page, metrics_registry, tls_listeners);
    add_process_families(page);
    return page.take_text();
  }
  /// Value of the series that is written exactly so.
  double value(const std::string& series) const {
    for (const std::string& line : lines_of(page())) {
      if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
    }
    ADD_FAILURE() << "no series " << series << " in\n" << page();
    return -1;
  }

  MetricsRegistry metrics_registry{2};
  LabelIndex& label_index = metrics_registry.label_index();
  LabelUses uses{label_index};
  std::uint32_t pool = uses.pool("llama");
  std::uint32_t route = uses.route("/v1/**");
  std::uint32_t listener = label_index.listener("public");
  std::vector<std::string> tls_listeners;
};

TEST(WorkerFamilies, SumOverAllWorkers) {
  Workers workers;

  workers.metrics_registry.worker_metrics(0).count(
      {.pool = 1, .route = 1, .status = 200, .duration = 20ms});
  workers.metrics_registry.worker_metrics(1).count(
      {.pool = 1, .route = 1, .status = 200, .duration = 3s});

  EXPECT_EQ(workers.value(R"(evenkeel_requests_total{pool="llama",route="/v1/**",code="200"})"), 2);
  const std::string duration = "evenkeel_request_duration_seconds";
  EXPECT_EQ(workers.value(duration + R"(_bucket{pool="llama",le="0.01"})"), 0);
  EXPECT_EQ(workers.value(duration + R"(_bucket{pool="llama",le="0.025"})"), 1);
  EXPECT_EQ(workers.value(duration + R"(_bucket{pool="llama",le="+Inf"})"), 2);
  EXPECT_DOUBLE_EQ(workers.value(duration + R"(_sum{pool="llama"})"), 3.02);
  EXPECT_EQ(workers.value(duration + R"(_count{pool="llama"})"), 2);
}

TEST(WorkerFamilies, CountCallsByTheirGrpcStatusOnceThereWasOne) {
  Workers workers;
  EXPECT_THAT(workers.page(), Not(HasSubstr("evenkeel_grpc_responses_total{")));

  workers.metrics_registry.worker_metrics(0).count({.pool = 1, .route = 1, .status = 200});
  EXPECT_THAT(workers.page(), Not(HasSubstr("evenkeel_grpc_responses_total{")));
  for (const std::uint8_t status : std::initializer_list<std::uint8_t>{0, 0, 14, 17, 200}) {
    workers.metrics_registry.worker_metrics(1).count(
        {.pool = 1, .route = 1, .status = 200, .grpc_status = status});
  }

  const std::string series = R"(evenkeel_grpc_responses_total{pool="llama",route="/v1/**")";
  EXPECT_EQ(workers.value(series + R"(,grpc_status="0"})"), 2);
  EXPECT_EQ(workers.value(series + R"(,grpc_status="4"})"), 0);
  EXPECT_EQ(workers.value(series + R"(,grpc_status="14"})"), 1);
  EXPECT_EQ(workers.value(series + R"(,grpc_status="other"})"), 2);
}

TEST(WorkerFamilies, StartAtZero) {
  Workers workers;

  for (const char* series : {
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
           "evenkeel_overhead_seconds_count",
           "evenkeel_pick_duration_seconds_count",
           "evenkeel_request_bytes_total",
           "evenkeel_response_bytes_total",
       }) {
    EXPECT_EQ(workers.value(series), 0) << series;
  }
}

TEST(WorkerFamilies, StartAtZeroForModelsThatTheFileNames) {
  Workers workers;
  const std::string labels = R"({pool="llama",model="llama-70b")";
  EXPECT_THAT(workers.page(), Not(HasSubstr("evenkeel_tokens_total{")));

  workers.label_index.add_model_to_pool("llama-70b", workers.pool);

  EXPECT_EQ(workers.value("evenkeel_tokens_total" + labels + R"(,direction="output"})"), 0);
  EXPECT_EQ(workers.value("evenkeel_time_to_first_token_seconds_count" + labels + "}"), 0);
  EXPECT_EQ(
      workers.value("evenkeel_time_to_first_token_seconds_bucket" + labels + R"(,le="0.04"})"), 0);
}

TEST(WorkerFamilies, StartAtZeroForHandshakesOfListenersWithTls) {
  Workers workers;
  EXPECT_THAT(workers.page(), Not(HasSubstr("evenkeel_tls_handshakes_total{")));

  workers.tls_listeners = {"public"};

  EXPECT_EQ(workers.value(R"(evenkeel_tls_handshakes_total{listener="public",result="ok"})"), 0);
}

TEST(WorkerFamilies, ForgetTheModelsOfAPoolWithThePool) {
  LabelIndex index;
  {
    LabelUses uses(index);
    index.add_model_to_pool("llama-70b", uses.pool("llama"));
    EXPECT_EQ(index.view().pool_models.size(), 1u);
  }
  EXPECT_EQ(index.view().pool_models.size(), 0u);
}

TEST(WorkerFamilies, TellOnWhichSideARequestFailed) {
  Workers workers;
  WorkerMetrics& metrics = workers.metrics_registry.worker_metrics(0);
  metrics.count_error(workers.pool, Fault::client_gone);
  metrics.count_error(workers.pool, Fault::queue_full);
  metrics.count_error(workers.pool, Fault::connect_failed);

  const std::string series = R"(evenkeel_errors_total{pool="llama",reason=)";
  EXPECT_EQ(workers.value(series + R"("client_gone",side="client"})"), 1);
  EXPECT_EQ(workers.value(series + R"("queue_full",side="proxy"})"), 1);
  EXPECT_EQ(workers.value(series + R"("connect_failed",side="backend"})"), 1);
}

TEST(WorkerFamilies, IncludeTheProcessMetrics) {
  Workers workers;
  const double fds_before = workers.value("process_open_fds");
  const double started = workers.value("process_start_time_seconds");

  std::FILE* file = std::tmpfile();

  EXPECT_EQ(workers.value("process_open_fds"), fds_before + 1);
  EXPECT_GT(workers.value("process_cpu_seconds_total"), 0);
  EXPECT_GT(workers.value("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(workers.value("process_virtual_memory_bytes"),
            workers.value("process_resident_memory_bytes"));
  EXPECT_GT(workers.value("process_max_fds"), fds_before);
  EXPECT_EQ(workers.value("process_start_time_seconds"), started);
  EXPECT_NEAR(started, static_cast<double>(std::time(nullptr)), 3600);
  std::fclose(file);
}

TEST(WorkerFamilies, ShowARequestThatNoConfigurationAnnounced) {
  Workers workers;
  const auto pool = workers.uses.pool("new");

  workers.metrics_registry.worker_metrics(0).count(
      {.pool = pool, .route = workers.route, .status = 429});
  workers.metrics_registry.worker_metrics(0).count({.status = 0});

  EXPECT_EQ(workers.value(R"(evenkeel_requests_total{pool="new",route="/v1/**",code="429"})"), 1);
  EXPECT_EQ(workers.value(R"(evenkeel_requests_total{pool="",route="",code="0"})"), 1);
  EXPECT_THAT(workers.page(), Not(HasSubstr(R"(pool="new",route="/v1/**",code="200")")));
}

TEST(WorkerFamilies, ShowTokensAndTimesByModel) {
  Workers workers;
  const auto model = workers.label_index.model("llama");
  for (unsigned worker = 0; worker < 2; ++worker) {
    ModelMetrics& metrics =
        workers.metrics_registry.worker_metrics(worker).model(workers.pool, model);
    metrics.tokens.add(TokenDirection::input, 100);
    metrics.tokens.add(TokenDirection::cached, 64);
    metrics.first_token.observe(30ms);
    metrics.per_output_token.observe(20ms);
    metrics.gap.observe(7ms);
  }
  const std::string labels = R"(pool="llama",model="llama")";

  EXPECT_EQ(workers.value("evenkeel_tokens_total{" + labels + R"(,direction="input"})"), 200);
  EXPECT_EQ(workers.value("evenkeel_tokens_total{" + labels + R"(,direction="output"})"), 0);
  EXPECT_EQ(workers.value("evenkeel_tokens_total{" + labels + R"(,direction="cached"})"), 128);
  EXPECT_EQ(
      workers.value("evenkeel_time_to_first_token_seconds_bucket{" + labels + R"(,le="0.04"})"), 2);
  EXPECT_EQ(
      workers.value("evenkeel_time_per_output_token_seconds_bucket{" + labels + R"(,le="0.01"})"),
      0);
  EXPECT_NEAR(workers.value("evenkeel_time_per_output_token_seconds_sum{" + labels + "}"), 0.04,
              1e-9);
  EXPECT_EQ(workers.value("evenkeel_inter_token_gap_seconds_count{" + labels + "}"), 2);
}

TEST(WorkerFamilies, ShowTenantsOnlyWhereThereAreSome) {
  Workers workers;
  EXPECT_THAT(workers.page(), Not(HasSubstr("evenkeel_tenant")));
  LabelUses uses(workers.label_index);
  const std::uint32_t acme = uses.tenant("acme");

  workers.metrics_registry.worker_metrics(0).tenant(acme).requests.add();
  workers.metrics_registry.worker_metrics(1).tenant(acme).requests.add();
  workers.metrics_registry.worker_metrics(1).tenant(LabelIndex::other_tenant).requests.add();
  workers.metrics_registry.worker_metrics(1).tenant(acme).tokens.add(TokenDirection::output, 40);
  workers.metrics_registry.worker_metrics(0).tenant(acme).in_flight.add(2);
  workers.metrics_registry.worker_metrics(1).tenant(acme).in_flight.add(3);
  workers.metrics_registry.worker_metrics(1).tenant(acme).waiting.add(1);

  EXPECT_EQ(workers.value(R"(evenkeel_tenant_requests_total{tenant="acme"})"), 2);
  EXPECT_EQ(workers.value(R"(evenkeel_tenant_requests_total{tenant="other"})"), 1);
  EXPECT_EQ(workers.value(R"(evenkeel_tenant_requests_in_flight{tenant="acme"})"), 4);
  EXPECT_EQ(workers.value(R"(evenkeel_tenant_requests_waiting{tenant="acme"})"), 1);
  const std::string tokens = "evenkeel_tenant_tokens_total{tenant=";
  EXPECT_EQ(workers.value(tokens + R"("acme",direction="output"})"), 40);
  EXPECT_EQ(workers.value(tokens + R"("other",direction="input"})"), 0);
}

TEST(WorkerFamilies, EscapeConfiguredNames) {
  Workers workers;

  workers.uses.pool("a\"b\\c\nd");

  EXPECT_EQ(workers.value(R"(evenkeel_requests_in_flight{pool="a\"b\\c\nd"})"), 0);
}

TEST(WorkerFamilies, CanBeRenderedWhileWorkersCount) {
  constexpr int requests = 20'000;
  Workers workers;
  std::atomic<unsigned> done{0};
  const auto work = [&](unsigned worker) {
    WorkerMetrics& worker_metrics = workers.metrics_registry.worker_metrics(worker);
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
    workers.label_index.add_route_to_pool(workers.uses.route(std::to_string(i)),
                                          workers.uses.pool(std::to_string(i)));
  }

  std::thread one(work, 0);
  std::thread other(work, 1);
  while (done.load() < 2) ASSERT_THAT(workers.page(), HasSubstr("evenkeel_requests_total"));
  one.join();
  other.join();

  double total = 0;
  for (const std::string& line : lines_of(workers.page())) {
    if (line.starts_with("evenkeel_requests_total{"))
      total += std::stod(line.substr(line.rfind(' ')));
  }
  EXPECT_EQ(total, 2 * requests);
}

}  // namespace
}  // namespace evenkeel::testing
