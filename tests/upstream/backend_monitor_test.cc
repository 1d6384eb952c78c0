#include "evenkeel/upstream/backend_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "evenkeel/base/hash.h"
#include "upstream/polling.h"
#include "upstream/test_server.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Answer = TestServer::Answer;

constexpr Duration patience = 20s;

std::string models_owned_by(const std::string& owner) {
  return R"({"data":[{"id":"llama","owned_by":")" + owner + R"("}]})";
}

MonitorSpec spec_for(const std::string& id, const Endpoint& endpoint, const std::string& engine) {
  const HealthConfig health{.interval = 20ms, .timeout = 20s};
  return {.pool = "chat",
          .backend = std::make_shared<Backend>(BackendSpec{.id = id, .address = endpoint.text()}),
          .health = {.config = health, .engine = engine, .engine_is_auto = engine == "auto"},
          .metrics = {.config = {.scrape = Scrape::off}, .engine = engine},
          .access = {.addresses = {endpoint}, .authority = endpoint.text()}};
}

class BackendMonitors : public testing::Test {
 protected:
  void monitor_only(MonitorSpec spec) {
    std::vector<MonitorSpec> specs;
    specs.push_back(std::move(spec));
    monitor.update(std::move(specs), 0);
  }
  const BackendStatus* status(const std::string& id) {
    latest = monitor.snapshot();
    return latest->find("chat", id);
  }
  bool becomes(const std::string& id, HealthState state) {
    return eventually(loop, [&] {
      const BackendStatus* found = status(id);
      return found != nullptr && found->health.state == state;
    });
  }

  Loop loop;
  BackendMonitor monitor{loop, 7, resolve_at_once,
                         [](const std::string&, const std::string&, Duration) {}};
  std::shared_ptr<const MonitorSnapshot> latest;
};

TEST_F(BackendMonitors, PublishWhatTheChecksFind) {
  TestServer server(loop,
                    {{"/health", {.body = ""}}, {"/is_sleeping", {.status = 404, .body = ""}}});
  const MonitorSpec spec = spec_for("a", server.endpoint(), "vllm");

  monitor_only(spec);
  EXPECT_EQ(status("a")->health.state, HealthState::starting);
  EXPECT_FALSE(spec.backend->state().in_rotation());

  ASSERT_TRUE(becomes("a", HealthState::up));
  EXPECT_TRUE(spec.backend->state().in_rotation());
  EXPECT_EQ(status("a")->engine, "vllm");
  EXPECT_EQ(status("a")->health.reason, "");
  EXPECT_FALSE(status("a")->polled);
  EXPECT_EQ(status("b"), nullptr);
}

TEST_F(BackendMonitors, KeepEverySnapshotAsItWas) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  monitor_only(spec_for("a", server.endpoint(), "sglang"));

  const auto before = monitor.snapshot();
  ASSERT_TRUE(becomes("a", HealthState::up));
  monitor.update({}, 0);

  EXPECT_EQ(before->find("chat", "a")->health.state, HealthState::starting);
  EXPECT_TRUE(monitor.snapshot()->backends().empty());
}

TEST_F(BackendMonitors, WaitForTheFirstResultOfEveryBackend) {
  TestServer good(loop, {{"/health", {.body = ""}}});
  TestServer silent(loop, {{"/health", {.body = std::nullopt}}});
  std::vector<MonitorSpec> specs;
  specs.push_back(spec_for("good", good.endpoint(), "sglang"));
  specs.push_back(spec_for("refused", closed_endpoint(), "sglang"));
  monitor.update(specs, 0);

  auto both = monitor.wait_for_first_results(Clock::now() + patience);
  ASSERT_TRUE(eventually(loop, [&] { return both.ready(); }));
  EXPECT_EQ(status("good")->health.state, HealthState::up);
  EXPECT_EQ(status("refused")->health.reason, "Connection refused");

  specs.push_back(spec_for("silent", silent.endpoint(), "sglang"));
  monitor.update(specs, 0);
  auto never_all = monitor.wait_for_first_results(Clock::now() + 50ms);
  ASSERT_TRUE(eventually(loop, [&] { return never_all.ready(); }));
  EXPECT_EQ(status("silent")->health.state, HealthState::starting);
}

TEST_F(BackendMonitors, ForgetBackendsThatAreGoneAndLeaveTheOthersAlone) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  const MonitorSpec kept = spec_for("kept", server.endpoint(), "sglang");
  monitor.update({kept, spec_for("gone", closed_endpoint(), "sglang")}, 0);
  ASSERT_TRUE(becomes("kept", HealthState::up));
  const auto since = status("kept")->health.since;

  monitor.update({kept}, 0);

  EXPECT_EQ(status("gone"), nullptr);
  EXPECT_EQ(status("kept")->health.state, HealthState::up);
  EXPECT_EQ(status("kept")->health.since, since);
}

TEST_F(BackendMonitors, DetectTheEngineAndCheckItAsThatEngineWants) {
  TestServer server(
      loop, {{"/v1/models", {.body = models_owned_by("sglang")}}, {"/health", {.body = ""}}});
  const MonitorSpec spec = spec_for("a", server.endpoint(), "auto");

  monitor_only(spec);
  EXPECT_EQ(status("a")->engine, "auto");
  EXPECT_FALSE(spec.backend->state().in_rotation());

  ASSERT_TRUE(becomes("a", HealthState::up));
  EXPECT_EQ(status("a")->engine, "sglang");
  EXPECT_THAT(*status("a")->models, ElementsAre("llama"));
  EXPECT_THAT(server.requests(), testing::Contains("GET /health"));
}

TEST_F(BackendMonitors, TellWhichModelsAreAdapters) {
  const std::string list =
      R"({"data":[{"id":"llama","parent":null},{"id":"","parent":"llama"},{"parent":"llama"},)"
      R"({"id":"sql","parent":"llama"}]})";
  TestServer server(loop, {{"/v1/models", {.body = list}}, {"/health", {.body = ""}}});
  MonitorSpec spec = spec_for("a", server.endpoint(), "sglang");
  spec.lists_adapters = true;
  const EngineState& engine = spec.backend->signals().engine();

  monitor_only(spec);

  ASSERT_TRUE(eventually(loop, [&] { return !engine.offered()->empty(); }));
  const OfferedAdapters expected{{.name = hash_of("sql"), .adapter = hash_of("sql")},
                                 {.name = hash_of("llama:sql"), .adapter = hash_of("sql")}};
  EXPECT_EQ(*engine.offered(), expected);
}

TEST_F(BackendMonitors, ListNoModelsForAdaptersOfAnEngineThatListsNone) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  MonitorSpec spec = spec_for("a", server.endpoint(), "tgi");
  spec.lists_adapters = true;
  monitor_only(spec);

  ASSERT_TRUE(becomes("a", HealthState::up));
  EXPECT_THAT(server.requests(), testing::Not(testing::Contains("GET /v1/models")));
}

TEST_F(BackendMonitors, DetectAgainWhatComesBackInPlaceOfABackendThatWentDown) {
  TestServer server(
      loop, {{"/v1/models", {.body = models_owned_by("sglang")}}, {"/health", {.body = ""}}});
  monitor_only(spec_for("a", server.endpoint(), "auto"));
  ASSERT_TRUE(becomes("a", HealthState::up));

  server.set_answer("/v1/models", {.body = models_owned_by("tensorrt_llm")});
  server.set_answer("/health", {.status = 500, .body = ""});
  ASSERT_TRUE(becomes("a", HealthState::down));
  server.set_answer("/health", {.body = ""});

  ASSERT_TRUE(becomes("a", HealthState::up));
  EXPECT_TRUE(eventually(loop, [&] { return status("a")->engine == "trtllm"; }));
}

TEST_F(BackendMonitors, ReportWhyAnEngineIsNotDetected) {
  monitor_only(spec_for("a", closed_endpoint(), "auto"));

  auto first = monitor.wait_for_first_results(Clock::now() + patience);
  ASSERT_TRUE(eventually(loop, [&] { return first.ready(); }));

  EXPECT_EQ(status("a")->health.state, HealthState::starting);
  EXPECT_EQ(status("a")->health.reason, "Connection refused");
}

TEST_F(BackendMonitors, PutBackendsWithoutChecksIntoRotationAtOnce) {
  MonitorSpec spec = spec_for("a", closed_endpoint(), "generic");
  spec.health.config.check = HealthCheckKind::off;

  monitor_only(spec);

  EXPECT_EQ(status("a")->health.state, HealthState::unchecked);
  EXPECT_TRUE(spec.backend->state().in_rotation());
}

TEST_F(BackendMonitors, PublishHowTheMetricsWerePolled) {
  TestServer server(loop,
                    {{"/health", {.body = ""}}, {"/metrics", {.body = "tgi_queue_size 3\n"}}});
  MonitorSpec spec = spec_for("a", server.endpoint(), "tgi");
  spec.metrics.config = {.interval = 20ms, .timeout = 20s};
  monitor_only(spec);

  ASSERT_TRUE(eventually(loop, [&] {
    const BackendStatus* found = status("a");
    return found->polled && found->polled->engine.state == PollRecord::State::fresh;
  }));
  EXPECT_EQ(spec.backend->signals().values().waiting, 3);

  spec.metrics.config.scrape = Scrape::off;
  monitor_only(spec);
  EXPECT_FALSE(status("a")->polled);
}

TEST_F(BackendMonitors, PublishNothingNewWhileNothingChanges) {
  MonitorSpec spec = spec_for("a", closed_endpoint(), "generic");
  spec.health.config.check = HealthCheckKind::off;
  monitor_only(spec);
  drain_loop(loop);

  const auto before = monitor.snapshot();
  loop.run_until([] { return false; }, Clock::now() + 3 * BackendMonitor::publish_interval);

  EXPECT_EQ(monitor.snapshot(), before);
}

TEST_F(BackendMonitors, LetAnyThreadReadTheSnapshot) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  const MonitorSpec spec = spec_for("a", server.endpoint(), "sglang");
  monitor_only(spec);
  std::atomic<bool> seen_up = false;

  std::thread reader([&] {
    while (!seen_up) {
      const auto snapshot = monitor.snapshot();
      const BackendStatus* found = snapshot->find("chat", "a");
      seen_up = found != nullptr && found->health.state == HealthState::up;
    }
  });
  EXPECT_TRUE(eventually(loop, [&] { return seen_up.load(); }));
  seen_up = true;  // a failed test ends, too
  reader.join();
}

TEST(Suspicion, LastsWhileAServerAnswersNoCheck) {
  Loop loop;
  TestServer server(loop,
                    {{"/health", {.body = ""}}, {"/is_sleeping", {.status = 404, .body = ""}}});
  std::vector<Duration> reported;
  BackendMonitor monitor(loop, 7, resolve_at_once,
                         [&](const std::string& pool, const std::string& id, Duration max_silence) {
                           EXPECT_EQ(pool + "/" + id, "chat/a");
                           reported.push_back(max_silence);
                         });
  std::vector<MonitorSpec> specs;
  specs.push_back(spec_for("a", server.endpoint(), "vllm"));
  specs.back().health.config.timeout = 50ms;
  const BackendPtr backend = specs.back().backend;
  monitor.update(std::move(specs), 0);
  ASSERT_TRUE(eventually(loop, [&] { return backend->state().in_rotation(); }));
  EXPECT_TRUE(reported.empty());

  server.set_answer("/health", {.body = std::nullopt});
  ASSERT_TRUE(eventually(loop, [&] { return !reported.empty(); }));
  EXPECT_EQ(reported.back(), 20s);

  server.set_answer("/health", {.body = ""});
  EXPECT_TRUE(eventually(loop, [&] { return reported.back() == Duration::max(); }));
}

TEST(Suspicion, IsNotRaisedByAServerThatSaysItIsNotReady) {
  Loop loop;
  TestServer server(loop,
                    {{"/health", {.body = ""}}, {"/is_sleeping", {.status = 404, .body = ""}}});
  int reports = 0;
  BackendMonitor monitor(loop, 7, resolve_at_once,
                         [&](const std::string&, const std::string&, Duration) { ++reports; });
  std::vector<MonitorSpec> specs;
  specs.push_back(spec_for("a", server.endpoint(), "vllm"));
  const BackendPtr backend = specs.back().backend;
  monitor.update(std::move(specs), 0);
  ASSERT_TRUE(eventually(loop, [&] { return backend->state().in_rotation(); }));

  server.set_answer("/health", {.status = 503, .body = "leaving"});

  ASSERT_TRUE(eventually(loop, [&] { return !backend->state().in_rotation(); }));
  EXPECT_EQ(reports, 0);
}

}  // namespace
}  // namespace evenkeel
