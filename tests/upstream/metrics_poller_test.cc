#include "upstream/metrics_poller.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "upstream/polling.h"
#include "upstream/test_server.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Answers any request with some bytes, then closes, as HTTP/1.0 does.
class ClosingServer {
 public:
  ClosingServer(Loop& loop, std::string bytes) : loop_(loop), bytes_(std::move(bytes)) {
    const int fd = listening_fd();
    endpoint_ = Listener::local_endpoint(fd);
    listener_.emplace(loop_, fd, [this](int accepted, const Endpoint&) {
      loop_.spawn(answer(std::make_unique<Socket>(loop_, accepted)));
    });
  }

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Task<void> answer(std::unique_ptr<Socket> socket) {
    char spec[4096];
    co_await socket->watch().until_readable();
    socket->read_some(spec, sizeof spec);
    auto written = co_await socket->write(bytes_, {}, {}, patience);
    EXPECT_TRUE(written.ok());
  }

  Loop& loop_;
  std::string bytes_;
  Endpoint endpoint_;
  std::optional<Listener> listener_;
};

// ---- Reading -------------------------------------------------------------------------------

TEST(MetricsPoller, PublishesTheEnginesValues) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));

  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  EXPECT_FALSE(polling.age().has_value());
  ASSERT_TRUE(polling.until_running(4));

  EXPECT_EQ(polling.values().waiting, 3);
  EXPECT_EQ(polling.values().kv_cache_ratio, 0.5);
  EXPECT_TRUE(std::isnan(polling.values().gpu_memory_used_bytes)) << "vLLM does not say";
  EXPECT_EQ(server.requests().back(), "/metrics");
  EXPECT_EQ(polling.poller->status().engine.state, PollRecord::State::fresh);
  EXPECT_TRUE(polling.poller->status().engine.reason.empty());
  EXPECT_LT(*polling.age(), patience);
}

TEST(MetricsPoller, RequestsOnlyTheSeriesItNeedsFromVllm) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(1, 0, 0));
  server.short_status = 200;
  server.short_body = vllm_saying(4, 3, 0.5);

  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(4));
  ASSERT_TRUE(polling.until([&] { return server.requests().size() >= 3; }));

  for (const std::string& path : server.requests()) {
    EXPECT_TRUE(path.starts_with("/metrics/?name%5B%5D=vllm:num_requests_running&")) << path;
  }
}

TEST(MetricsPoller, RequestsTheFullPageIfTheShortOneIsEmpty) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(1, 0, 0));
  server.short_status = 200;

  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(1));
  ASSERT_TRUE(polling.until([&] { return server.requests().size() >= 4; }));

  EXPECT_TRUE(server.requests().front().starts_with("/metrics/?name"));
  for (std::size_t i = 1; i < server.requests().size(); ++i)
    EXPECT_EQ(server.requests()[i], "/metrics");
  EXPECT_EQ(polling.poller->status().engine.failures_total, 0u);
}

TEST(MetricsPoller, KeepsItsConnection) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(1, 0, 0));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());

  ASSERT_TRUE(polling.until_running(1));
  server.body = vllm_saying(2, 0, 0);
  ASSERT_TRUE(polling.until_running(2));
  ASSERT_TRUE(polling.until([&] { return server.requests().size() >= 5; }));

  EXPECT_EQ(server.connections(), 1u);
}

TEST(MetricsPoller, ReplacesAConnectionThatItsServerClosed) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(1, 0, 0));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(1));

  server.end_connections();
  server.body = vllm_saying(2, 0, 0);

  ASSERT_TRUE(polling.until_running(2));
  EXPECT_EQ(polling.poller->status().engine.failures_total, 0u);
}

TEST(MetricsPoller, ReadsAResponseThatEndsWithItsConnection) {
  Loop loop;
  std::string large = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
  for (int i = 0; i < 8000; ++i) {
    large += "ray_component_something_bucket{Component=\"core_worker\",le=\"" + std::to_string(i) +
             "\"} 1.0\n";
  }
  large += "ray_serve_replica_processing_queries{deployment=\"A\",} 4.0\n";
  ClosingServer server(loop, large);

  auto spec = poll_spec("ray");
  spec.config.path = "/metrics";
  Polling polling(loop, spec, server.endpoint());

  ASSERT_TRUE(polling.until_running(4)) << polling.poller->status().engine.reason;
}

TEST(MetricsPoller, RejectsAResponseThatEndsInTheMiddleOfALine) {
  Loop loop;
  ClosingServer server(loop,
                       "HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running{engine=\"0\"} 30\n"
                       "vllm:num_requests_waiting{en");
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until([&] { return polling.poller->status().engine.failures_total > 0; }));
  EXPECT_EQ(polling.poller->status().engine.reason, "the metrics page is incomplete");
  EXPECT_EQ(polling.poller->status().engine.readings_total, 0u);
}

TEST(MetricsPoller, RequestsTheFullPageIfTheShortPathLeadsElsewhere) {
  for (const int status : {307, 501}) {
    Loop loop;
    ExpositionServer server(loop, vllm_saying(1, 0, 0));
    server.short_status = status;
    Polling polling(loop, poll_spec("vllm"), server.endpoint());
    EXPECT_TRUE(polling.until_running(1)) << status;
  }
}

TEST(MetricsPoller, PollsOnlyEndpointsOfTheEngine) {
  Loop loop;
  MetricsPollSpec ray = poll_spec("ray");
  EXPECT_FALSE(is_polled(ray)) << "its own port serves applications";
  ray.config.port = 8080;
  EXPECT_TRUE(is_polled(ray));

  MetricsPollSpec trtllm = poll_spec("trtllm");
  trtllm.url = "http://127.0.0.1:8000/metrics";
  EXPECT_FALSE(is_polled(trtllm)) << "it is consumed by reading";
  ExpositionServer server(loop, "trtllm_num_requests_running 4\n");
  trtllm.url = "http://" + server.authority();
  Polling polling(loop, trtllm, server.endpoint());
  ASSERT_TRUE(polling.until_running(4));
  EXPECT_EQ(server.requests().front(), "/prometheus/metrics");
}

TEST(MetricsPoller, LoadsTheSystemsAuthoritiesOnce) {
  SystemTrustStore trust;
  const auto first = parse_scrape_target("https://127.0.0.1:1", "/metrics", trust);
  const auto second = parse_scrape_target("https://127.0.0.1:2/gpu", "/metrics", trust);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first).access.links.connector.tls, nullptr);
  EXPECT_EQ((*first).access.links.connector.tls, (*second).access.links.connector.tls);
  EXPECT_EQ((*first).path, "/metrics");
  EXPECT_EQ((*second).path, "/gpu");
}

TEST(MetricsPoller, NotesHowManyRequestsWereInFlightAtThePoll) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(polling.backend->try_acquire(loop.now()));

  ASSERT_TRUE(polling.until_running(4));

  EXPECT_EQ(polling.backend->signals().in_flight_at_poll(), 3u);
}

TEST(MetricsPoller, PollsWhereTheFileSaysAndSendsTheKeyToTheBackendOnly) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  ExpositionServer elsewhere(loop, vllm_saying(5, 3, 0.5));
  auto spec = poll_spec("vllm");
  spec.config.path = "/v1/metrics";
  Polling polling(loop, spec, server.endpoint(), "Bearer secret");
  ASSERT_TRUE(polling.until_running(4));
  EXPECT_EQ(server.requests().front(), "/v1/metrics");
  EXPECT_EQ(server.last_key(), "Bearer secret");

  spec.config.port = elsewhere.endpoint().port();
  Polling other_port(loop, spec, server.endpoint(), "Bearer secret");
  ASSERT_TRUE(other_port.until_running(5));
  EXPECT_EQ(elsewhere.last_key(), "");

  spec = poll_spec("vllm");
  spec.url = elsewhere.url();
  elsewhere.body = vllm_saying(6, 3, 0.5);
  Polling by_url(loop, spec, server.endpoint(), "Bearer secret");
  ASSERT_TRUE(by_url.until_running(6));
  EXPECT_EQ(elsewhere.last_key(), "");
  EXPECT_EQ(elsewhere.requests().back(), "/metrics");
}

// ---- What the engine says of itself -------------------------------------------------------------

std::string vllm_started_at(int seconds, int queried = 0) {
  return vllm_saying(1, 0, 0) + "process_start_time_seconds " + std::to_string(seconds) +
         "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1.0\n" +
         "vllm:prefix_cache_queries_total{engine=\"0\"} " + std::to_string(queried) +
         "\nvllm:prefix_cache_hits_total{engine=\"0\"} " + std::to_string(queried / 2) + "\n";
}

TEST(MetricsPoller, PublishesWhatTheEngineSaysOfItself) {
  Loop loop;
  ExpositionServer server(loop, vllm_started_at(1000, 100));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  const SharedBackend& shared = polling.backend->shared();
  EXPECT_TRUE(std::isnan(shared.signals.kv_capacity_tokens()));
  ASSERT_TRUE(polling.until_running(1));
  EXPECT_EQ(shared.signals.kv_capacity_tokens(), 1600);

  server.body = vllm_started_at(1000, 160);
  ASSERT_TRUE(polling.until([&] { return shared.signals.engine().prefix_cache()->queried > 0; }));
  EXPECT_EQ(shared.signals.engine().prefix_cache()->queried, 60u);
  EXPECT_EQ(shared.signals.engine().prefix_cache()->hit, 30u);

  polling.poller.reset();
  EXPECT_TRUE(std::isnan(shared.signals.kv_capacity_tokens()));
  EXPECT_EQ(shared.signals.engine().prefix_cache()->queried, 60u);
}

TEST(MetricsPoller, CountsTheRestartsOfTheEngine) {
  Loop loop;
  ExpositionServer server(loop, vllm_started_at(1000));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(1));

  for (const std::uint64_t restarts : {1u, 2u}) {
    server.body = vllm_started_at(1000 + 100 * static_cast<int>(restarts));
    ASSERT_TRUE(polling.until(
        [&] { return polling.backend->shared().signals.engine().restarts() == restarts; }));
  }
  const std::size_t asked = server.requests().size();
  ASSERT_TRUE(polling.until([&] { return server.requests().size() >= asked + 3; }));
  EXPECT_EQ(polling.backend->shared().signals.engine().restarts(), 2u);
}

TEST(MetricsPoller, TakesAnEngineThatSleepsOutOfRotation) {
  const auto page = [](int awake) {
    return vllm_saying(1, 0, 0) + "vllm:engine_sleep_state{sleep_state=\"awake\"} " +
           std::to_string(awake) + "\nvllm:engine_sleep_state{sleep_state=\"discard_all\"} " +
           std::to_string(1 - awake) + "\n";
  };
  Loop loop;
  ExpositionServer server(loop, page(0));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  const SharedBackend& shared = polling.backend->shared();
  ASSERT_TRUE(polling.until([&] { return shared.state.is_out(OutOfRotation::sleeping); }));
  EXPECT_EQ(shared.signals.engine().cache_clears(), 1u);
  EXPECT_EQ(shared.signals.engine().restarts(), 0u);

  server.body = page(1);
  ASSERT_TRUE(polling.until([&] { return shared.state.in_rotation(); }));
  EXPECT_EQ(shared.signals.engine().cache_clears(), 1u);

  server.body = page(0);
  ASSERT_TRUE(polling.until([&] { return !shared.state.in_rotation(); }));
  polling.poller.reset();
  EXPECT_TRUE(shared.state.in_rotation()) << "unknown";
}

TEST(MetricsPoller, ReadsAnEngineThatReportsNoLoad) {
  Loop loop;
  ExpositionServer server(loop, "process_start_time_seconds 1000\n");
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_failing());

  server.body = "process_start_time_seconds 2000\n";

  ASSERT_TRUE(
      polling.until([&] { return polling.backend->shared().signals.engine().restarts() == 1; }));
}

TEST(MetricsPoller, PollsAtOnceWhenItsServerHasReturned) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(1, 0, 0));
  Polling polling(loop, poll_spec("vllm", 1h), server.endpoint());
  ASSERT_FALSE(loop.run_until([&] { return !server.requests().empty(); }, Clock::now() + 50ms));

  polling.poller->poll_now();
  ASSERT_TRUE(polling.until_running(1));
  const std::size_t asked = server.requests().size();
  server.body = vllm_saying(2, 0, 0);
  polling.poller->poll_now();

  ASSERT_TRUE(polling.until_running(2));
  EXPECT_EQ(server.requests().size(), asked + 1);
}

// ---- Failures ---------------------------------------------------------------------------------

TEST(MetricsPoller, ExpiresValuesThatAreNotRenewedWhileTheirAgeGrows) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  auto spec = poll_spec("vllm");
  spec.config.timeout = 50ms;
  Polling polling(loop, spec, server.endpoint());
  ASSERT_TRUE(polling.until_running(4));
  const Instant stalled = Clock::now();

  server.hangs = true;
  ASSERT_TRUE(polling.until_failing());
  EXPECT_EQ(polling.values().running, 4) << "good for a while";
  EXPECT_EQ(polling.poller->status().engine.reason, "no response in time");
  ASSERT_TRUE(polling.until([&] { return std::isnan(polling.values().running); }));

  EXPECT_GE(*polling.age(), 1900ms);
  EXPECT_LT(Clock::now() - stalled, 10s);
  EXPECT_TRUE(std::isnan(polling.values().kv_cache_ratio));
  server.hangs = false;
  ASSERT_TRUE(polling.until_running(4)) << "and it comes back";
}

TEST(MetricsPoller, RecoversAfterItsServerWasDown) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(4));

  server.close();
  ASSERT_TRUE(polling.until_failing());
  server.body = vllm_saying(1, 0, 0);
  server.open_again();

  ASSERT_TRUE(polling.until_running(1));
}

TEST(MetricsPoller, FollowsARedirectAndNamesWhereItDoesNotFollow) {
  Loop loop;
  TestServer server(loop, {{"/metrics", {.status = 301, .body = "", .location = "/metrics/"}},
                           {"/metrics/", {.body = "sglang:num_running_reqs 3\n"}}});
  Polling polling(loop, poll_spec("sglang"), server.endpoint());
  ASSERT_TRUE(polling.until_running(3));

  server.set_answer("/metrics",
                    {.status = 302, .body = "", .location = "https://sso.test/in?state=secret"});
  ASSERT_TRUE(polling.until_failing());
  EXPECT_EQ(polling.poller->status().engine.reason, "status 302, Location https://sso.test/in?...");
}

TEST(MetricsPoller, ReportsWhyAPollFailed) {
  Loop loop;
  ExpositionServer server(loop, "node_load1 0.5\n");
  Polling polling(loop, poll_spec("vllm"), server.endpoint());

  ASSERT_TRUE(polling.until_failing());
  EXPECT_EQ(polling.poller->status().engine.reason,
            "the page has no series that this engine is known for");
  EXPECT_FALSE(polling.age().has_value());

  server.status = 501;
  ASSERT_TRUE(
      polling.until([&] { return polling.poller->status().engine.reason == "status 501"; }));

  Polling other(loop, poll_spec("sglang"), server.endpoint());
  ASSERT_TRUE(other.until_failing());
  EXPECT_EQ(other.poller->status().engine.reason,
            "status 501: no metrics without --enable-metrics");
}

TEST(MetricsPoller, RejectsAnIncompleteResponse) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  server.content_type = "application/openmetrics-text; version=1.0.0";
  Polling polling(loop, poll_spec("vllm"), server.endpoint());

  ASSERT_TRUE(polling.until_failing());
  EXPECT_EQ(polling.poller->status().engine.reason, "the metrics page is incomplete");
  EXPECT_FALSE(polling.age().has_value());

  server.body += "# EOF\n";
  ASSERT_TRUE(polling.until_running(4));
}

TEST(MetricsPoller, PollsEachServerIndependently) {
  Loop loop;
  ExpositionServer slow(loop, vllm_saying(1, 0, 0));
  slow.hangs = true;
  ExpositionServer quick(loop, vllm_saying(2, 0, 0));
  Polling one(loop, poll_spec("vllm"), slow.endpoint());
  Polling other(loop, poll_spec("vllm"), quick.endpoint());

  ASSERT_TRUE(other.until([&] { return quick.requests().size() >= 10; }));

  EXPECT_EQ(slow.requests().size(), 1u) << "never two questions at a time";
}

TEST(MetricsPoller, WithdrawsItsValuesWhenDestroyedAtAnyMoment) {
  Loop loop;
  ExpositionServer server(loop, vllm_saying(4, 3, 0.5));
  Polling polling(loop, poll_spec("vllm"), server.endpoint());
  ASSERT_TRUE(polling.until_running(4));
  server.hangs = true;
  const std::size_t asked = server.requests().size();
  ASSERT_TRUE(polling.until([&] { return server.requests().size() > asked; }));

  polling.poller.reset();

  EXPECT_TRUE(std::isnan(polling.values().running));
  EXPECT_FALSE(polling.age().has_value());
}

// ---- Special servers ---------------------------------------------------------------------

TEST(MetricsPoller, PausesWhileAnIdleModelSleeps) {
  Loop loop;
  ExpositionServer server(loop, "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n");
  Polling polling(loop, poll_spec("llamacpp"), server.endpoint());
  ASSERT_TRUE(polling.until(
      [&] { return polling.poller->status().engine.state == PollRecord::State::resting; }));
  EXPECT_TRUE(server.requests().empty());

  ASSERT_TRUE(polling.backend->try_acquire(loop.now()));
  ASSERT_TRUE(polling.until_running(1));
  polling.backend->release();
  const std::size_t asked = server.requests().size();
  ASSERT_TRUE(polling.until([&] { return server.requests().size() >= asked + 2; }))
      << "others keep it awake";
  server.body = "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n";
  ASSERT_TRUE(polling.until(
      [&] { return polling.poller->status().engine.state == PollRecord::State::resting; }));
}

TEST(MetricsPollSpec, IsPolledOnlyWithASource) {
  EXPECT_TRUE(is_polled(poll_spec("vllm")));
  EXPECT_FALSE(is_polled(poll_spec("ray")))
      << "its agent serves them, on a port that only the file can tell";
  EXPECT_FALSE(is_polled(poll_spec("generic"))) << "no known page";
  EXPECT_FALSE(is_polled(poll_spec("ollama")));
  EXPECT_FALSE(is_polled(poll_spec("tfserving"))) << "it has counters, but no gauges";
  EXPECT_FALSE(is_polled(poll_spec("auto"))) << "not detected yet";

  auto spec = poll_spec("generic");
  spec.config.path = "/metrics";
  EXPECT_TRUE(is_polled(spec));
  spec = poll_spec("vllm");
  spec.config.scrape = Scrape::off;
  EXPECT_FALSE(is_polled(spec));
  spec.config.gpu = "http://127.0.0.1:9400/metrics";
  EXPECT_TRUE(is_polled(spec));
}

TEST(MetricsPollSpec, IsNeverPolledIfReadingConsumesTheData) {
  auto spec = poll_spec("trtllm");
  spec.config.path = "/metrics";

  EXPECT_FALSE(is_polled(spec));
}

}  // namespace
}  // namespace evenkeel
