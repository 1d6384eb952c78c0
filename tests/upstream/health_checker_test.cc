#include "upstream/health_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "upstream/health_check_spec.h"
#include "upstream/test_server.h"
#include "wire/peer.h"

namespace evenkeel {

void PrintTo(HealthState state, std::ostream* out) { *out << static_cast<int>(state); }
void PrintTo(CheckResult result, std::ostream* out) { *out << to_string(result); }

namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Answer = TestServer::Answer;

std::string models(const std::string& name) { return R"({"data":[{"id":")" + name + R"("}]})"; }

class HealthChecks : public testing::Test {
 protected:
  /// Starts checks. The timeout is long, since responses take a while on a busy machine.
  void check(const Endpoint& endpoint, HealthCheckSpec spec, bool serving = false) {
    if (spec.config.timeout == HealthConfig{}.timeout) spec.config.timeout = 20s;
    checker.emplace(loop, 7, std::move(spec), access_to(endpoint), backend, serving,
                    [this](const HealthRecord& record) { states.push_back(record.state); });
  }
  static ServerAccess access_to(const Endpoint& endpoint) {
    return {.addresses = {endpoint}, .authority = endpoint.text(), .key = {}, .links = {}};
  }
  static HealthCheckSpec vllm(std::vector<std::string> names = {}) {
    return {.config = {.interval = 20ms}, .engine = "vllm", .models = std::move(names)};
  }
  static HealthCheckSpec generic(std::vector<std::string> names) {
    return {.config = {.path = "/ready", .interval = 20ms, .model = ModelCheck::required},
            .engine = "generic",
            .models = std::move(names)};
  }
  bool settles(CheckResult result) {
    return eventually(loop, [&] { return checker->record().last == result; });
  }
  std::uint64_t count(CheckResult result) const {
    return checker->record().checks[static_cast<std::size_t>(result)];
  }
  SharedBackend& shared() const { return backend->shared(); }

  Loop loop;
  BackendPtr backend = std::make_shared<Backend>(BackendSpec{.id = "b", .address = "b"});
  std::vector<HealthState> states;
  std::optional<HealthChecker> checker;
};

TEST_F(HealthChecks, KeepABackendOutOfRotationUntilTheFirstResult) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  check(server.endpoint(), vllm());
  EXPECT_TRUE(shared().state.is_out(OutOfRotation::starting));
  EXPECT_EQ(checker->record().state, HealthState::starting);

  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_TRUE(shared().state.in_rotation());
  EXPECT_THAT(states, ElementsAre(HealthState::up));
  EXPECT_EQ(checker->record().reason, "");
}

TEST_F(HealthChecks, LeaveAServingBackendInRotationUntilTheyFail) {
  TestServer server(loop, {{"/health", {.status = 500, .body = ""}}});
  check(server.endpoint(), vllm(), true);
  EXPECT_TRUE(shared().state.in_rotation());

  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_GE(count(CheckResult::error), 3u);
  EXPECT_TRUE(shared().state.is_out(OutOfRotation::unhealthy));
}

TEST_F(HealthChecks, KeepTheirConnection) {
  TestServer server(loop, {{"/health", {.body = "ok"}}});
  HealthCheckSpec spec = vllm();
  spec.engine = "tgi";
  check(server.endpoint(), spec);

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 5; }));
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(HealthChecks, OpenNewConnectionsIfThoseOutliveTheListener) {
  TestServer server(loop,
                    {{"/health", {.body = "ok"}}, {"/is_sleeping", {.status = 404, .body = ""}}});
  check(server.endpoint(), vllm());

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 5; }));
  EXPECT_GE(server.connections(), 5u);
  EXPECT_EQ(std::ranges::count(server.requests(), "GET /is_sleeping"),
            1);  // it has no sleep endpoint
}

TEST_F(HealthChecks, TakeARefusalForAStartAtFirstAndForDownLater) {
  check(closed_endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::refused));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  EXPECT_EQ(checker->record().reason, "Connection refused");
  checker.reset();

  check(closed_endpoint(), vllm(), true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_EQ(checker->record().reason, "Connection refused");
}

TEST_F(HealthChecks, CountARestartIfAServerReturnsAfterItRefusedConnections) {
  TestServer server(loop, {{"/health", {.body = "ok"}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::passed));

  server.close();
  ASSERT_TRUE(settles(CheckResult::refused));
  EXPECT_EQ(shared().signals.engine().restarts(), 0u);
  server.open_again();

  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(shared().signals.engine().restarts(), 1u);
  const std::uint64_t passed = count(CheckResult::passed);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= passed + 3; }));
  EXPECT_EQ(shared().signals.engine().restarts(), 1u);
}

TEST_F(HealthChecks, TakeTheFirstStartForNoRestart) {
  TestServer server(loop, {{"/health", {.body = "ok"}}});
  server.close();
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::refused));
  server.open_again();

  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(shared().signals.engine().restarts(), 0u);
}

TEST_F(HealthChecks, TimeOut) {
  TestServer server(loop, {{"/health", {.body = std::nullopt}}});
  HealthCheckSpec spec = vllm();
  spec.config.timeout = 100ms;
  check(server.endpoint(), spec);

  ASSERT_TRUE(settles(CheckResult::timeout));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "GET /health: no response in time");
}

TEST_F(HealthChecks, IgnoreATimeoutWhileTheServerAnswersRequests) {
  TestServer server(loop, {{"/health", {.body = std::nullopt}}});
  HealthCheckSpec spec = vllm();
  spec.config.timeout = 50ms;
  check(server.endpoint(), spec, true);

  ASSERT_TRUE(eventually(loop, [&] {
    shared().stats.record_first_byte(1ms, Clock::now());  // some request
    return count(CheckResult::timeout) >= 5;
  }));
  EXPECT_EQ(checker->record().state, HealthState::up);

  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
}

TEST_F(HealthChecks, RequireTheModelsOfThePool) {
  TestServer server(loop, {{"/health", {.body = ""}}, {"/v1/models", {.body = models("a")}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::required;
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_THAT(*checker->record().models, ElementsAre("a"));
  checker.reset();

  spec.models = {"a", "b"};
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::model_missing));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "the server does not serve model 'b'");
}

TEST_F(HealthChecks, CheckTritonsModelsInsteadOfTheServerWhichFailsWithAnyOfThem) {
  TestServer server(loop, {{"/v2/health/ready", {.status = 400, .body = ""}},
                           {"/v2/models/a/ready", {.body = ""}}});
  HealthCheckSpec spec{.config = {.interval = 20ms}, .engine = "triton", .models = {"a"}};
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::not_ready));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  checker.reset();

  spec.config.model = ModelCheck::required;
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::passed));
}

TEST_F(HealthChecks, WaitForAModelThatIsListedBeforeItIsLoaded) {
  const std::string loading = R"({"error":{"message":"Loading model","code":503}})";
  TestServer server(
      loop, {{"/health", {.status = 503, .body = loading}}, {"/v1/models", {.body = models("a")}}});
  HealthCheckSpec spec{.config = {.interval = 20ms}, .engine = "llamacpp", .models = {"a"}};
  spec.config.model = ModelCheck::required;
  check(server.endpoint(), spec);

  ASSERT_TRUE(settles(CheckResult::not_ready));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  EXPECT_THAT(checker->record().reason, HasSubstr("Loading model"));
}

TEST_F(HealthChecks, NoticeThatVllmSleeps) {
  TestServer server(
      loop, {{"/health", {.body = ""}}, {"/is_sleeping", {.body = R"({"is_sleeping":true})"}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_TRUE(shared().state.is_out(OutOfRotation::sleeping));
  EXPECT_FALSE(shared().state.in_rotation());

  server.set_answer("/is_sleeping", {.body = R"({"is_sleeping":false})"});
  ASSERT_TRUE(eventually(loop, [&] { return shared().state.in_rotation(); }));
}

TEST_F(HealthChecks, RequireNoTokenFromAServerThatSleeps) {
  TestServer server(loop, {{"/health", {.body = ""}},
                           {"/v1/models", {.body = models("a")}},
                           {"/is_sleeping", {.body = R"({"is_sleeping":true})"}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::generate;
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 3; }));
  EXPECT_THAT(server.requests(), Not(Contains("POST /v1/completions")));
}

TEST_F(HealthChecks, RequireATokenFromEachModel) {
  TestServer server(loop, {{"/health", {.body = ""}},
                           {"/v1/models", {.body = models("a")}},
                           {"/v1/completions", {.status = 500, .body = "boom"}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::generate;
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::no_token));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "POST /v1/completions for 'a': 500 boom");

  server.set_answer("/v1/completions", {.body = R"({"choices":[{"text":"a"}]})"});
  ASSERT_TRUE(settles(CheckResult::passed));
  const auto tokens = [&] { return std::ranges::count(server.requests(), "POST /v1/completions"); };
  const auto sent = tokens();
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 10; }));
  EXPECT_EQ(tokens(), sent);  // one in ten seconds is enough
}

TEST_F(HealthChecks, CountALateTokenIfThePoolHasSeveralModels) {
  TestServer server(loop, {{"/health", {.body = ""}},
                           {"/v1/models", {.body = R"({"data":[{"id":"a"},{"id":"b"}]})"}},
                           {"/v1/completions", {.body = std::nullopt}}});
  HealthCheckSpec spec = vllm({"a", "b"});
  spec.config.model = ModelCheck::generate;
  spec.config.timeout = 50ms;
  spec.config.fall = 1;
  check(server.endpoint(), spec, true);

  ASSERT_TRUE(eventually(loop, [&] {
    shared().stats.record_first_byte(1ms, Clock::now());  // a request for another model
    return checker->record().state == HealthState::down;
  }));
  EXPECT_EQ(count(CheckResult::no_token), 1u);
  EXPECT_THAT(checker->record().reason, HasSubstr("POST /v1/completions for 'a'"));
}

TEST_F(HealthChecks, DoNotApplyTheLatencyLimitToTokens) {
  TestServer server(
      loop, {{"/health", {.body = ""}},
             {"/v1/models", {.body = models("a")}},
             {"/v1/completions", {.body = R"({"choices":[{"text":"a"}]})", .delay = 2100ms}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::generate;
  spec.config.latency = 2s;
  check(server.endpoint(), spec);

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 3; }));
  EXPECT_EQ(count(CheckResult::slow), 0u);
  EXPECT_EQ(std::ranges::count(server.requests(), "POST /v1/completions"), 1);
}

TEST_F(HealthChecks, RequireATokenOnceOneHasFailed) {
  TestServer server(loop, {{"/health", {.body = ""}},
                           {"/v1/models", {.body = models("a")}},
                           {"/v1/completions", {.status = 500, .body = ""}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::generate;
  check(server.endpoint(), spec, true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_EQ(count(CheckResult::passed), 0u);
}

TEST_F(HealthChecks, ProbeAnEjectedServerOfUnknownApiIfTheyCoverItsModels) {
  TestServer server(loop, {{"/ready", {.body = ""}},
                           {"/v1/models", {.body = models("a")}},
                           {"/v1/completions", {.status = 500, .body = ""}}});
  check(server.endpoint(), generic({"a"}));
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_TRUE(shared().state.is_probed());
  shared().state.eject(EjectionReason::consecutive, 0ms, Clock::now());

  const auto probes = [&] { return std::ranges::count(server.requests(), "POST /v1/completions"); };
  ASSERT_TRUE(eventually(loop, [&] { return probes() >= 2; }));
  EXPECT_TRUE(shared().state.is_out(OutOfRotation::ejected));
  server.set_answer("/v1/completions", {.body = R"({"choices":[{"text":"a"}]})"});

  ASSERT_TRUE(eventually(loop, [&] { return shared().state.in_rotation(); }));
  EXPECT_EQ(shared().state.why(), Avoidance::ejected) << "its next request is its trial";
}

TEST_F(HealthChecks, ProbeNoServerThatHasNoPathForTokens) {
  TestServer server(loop, {{"/ready", {.body = ""}},
                           {"/v1/models", {.body = models("a")}},
                           {"/v1/completions", {.status = 404, .body = ""}}});
  check(server.endpoint(), generic({"a"}));
  ASSERT_TRUE(settles(CheckResult::passed));
  shared().state.eject(EjectionReason::consecutive, 0ms, Clock::now());

  ASSERT_TRUE(eventually(loop, [&] { return !shared().state.is_probed(); }));
  const std::uint64_t passed = count(CheckResult::passed);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= passed + 3; }));
  EXPECT_FALSE(shared().state.is_probed());
  EXPECT_EQ(std::ranges::count(server.requests(), "POST /v1/completions"), 1);
}

TEST_F(HealthChecks, ProbeNoServerOfUnknownApiWithoutModels) {
  TestServer server(loop, {{"/ready", {.body = ""}}, {"/v1/models", {.body = models("a")}}});
  check(server.endpoint(), generic({}));
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_FALSE(shared().state.is_probed());
}

TEST_F(HealthChecks, FailIfTheyTakeLongerThanTheLimit) {
  TestServer server(loop, {{"/health", {.body = "", .delay = 40ms}}});
  HealthCheckSpec spec = vllm();
  spec.config.latency = 10ms;
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::slow));
  EXPECT_THAT(checker->record().reason, HasSubstr("the limit is 0.010 s"));
}

TEST_F(HealthChecks, SendTheKeyOfTheBackend) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  ServerAccess access = access_to(server.endpoint());
  access.key.value = "Bearer secret";
  checker.emplace(loop, 7, vllm(), access, backend, false, [](const HealthRecord&) {});
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(server.last_authorization(), "Bearer secret");
}

TEST_F(HealthChecks, OfTcpOnlyConnect) {
  TestServer server(loop, {});
  HealthCheckSpec spec = vllm();
  spec.config.check = HealthCheckKind::tcp;
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 2; }));
  EXPECT_THAT(server.requests(), ElementsAre());
}

TEST_F(HealthChecks, EndTheBackoffOnceTheBackendAcceptsConnections) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.config.interval = 1h;
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  backend->state().connect_failed(Clock::now());
  ASSERT_TRUE(shared().state.avoided(Clock::now()));

  ASSERT_TRUE(eventually(loop, [&] {
    checker->check_triggers();
    return shared().state.serving();
  }));
  EXPECT_EQ(server.connections(), 2u);  // an existing connection proves nothing
}

TEST_F(HealthChecks, UseANewConnectionAtOnceWhenRequestsFail) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.config.interval = 1h;
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  shared().stats.count_error(Fault::backend_closed);
  ASSERT_TRUE(eventually(loop, [&] {
    checker->check_triggers();
    return count(CheckResult::passed) == 2;
  }));
  EXPECT_EQ(server.connections(), 2u);
}

TEST_F(HealthChecks, DoNotHurryWhenRequestsTimeOut) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.config.interval = 1h;
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  shared().stats.count_error(Fault::first_byte_timeout);
  shared().stats.count_error(Fault::idle_timeout);
  const auto of_health = [&] { return std::ranges::count(server.requests(), "GET /health"); };
  EXPECT_FALSE(eventually(
      loop,
      [&] {
        checker->check_triggers();
        return of_health() > 1;
      },
      600ms));  // twice the time of the fast interval
}

TEST_F(HealthChecks, LimitTheListOfModels) {
  std::string listed;
  for (int i = 0; i < 2000; ++i) listed += R"({"id":")" + std::to_string(i) + R"("},)";
  TestServer server(loop, {{"/health", {.body = ""}},
                           {"/v1/models", {.body = R"({"data":[)" + listed + R"({"id":"a"}]})"}}});
  HealthCheckSpec spec = vllm({"a"});
  spec.config.model = ModelCheck::required;
  check(server.endpoint(), spec);
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(checker->record().models->size(), 1000u);
}

TEST_F(HealthChecks, UseANewConnectionEvenAtTheFastIntervalWhenRequestsFail) {
  TestServer server(loop, {{"/health", {.body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.engine = "tgi";
  check(server.endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 2; }));
  ASSERT_EQ(server.connections(), 1u);

  shared().stats.count_error(Fault::backend_closed);
  checker->check_triggers();
  ASSERT_TRUE(eventually(loop, [&] { return server.connections() == 2; }));
}

TEST_F(HealthChecks, NoticeAtOnceThatTheirConnectionHasClosed) {
  std::optional<TestServer> server(std::in_place, loop,
                                   TestServer::Answers{{"/health", {.body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.config.interval = 1h;
  check(server->endpoint(), spec);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  server.reset();
  ASSERT_TRUE(eventually(loop, [&] {
    checker->check_triggers();
    return checker->record().state == HealthState::down;
  }));
  EXPECT_EQ(checker->record().reason, "Connection refused");
}

TEST_F(HealthChecks, UseTheFastIntervalInTransition) {
  TestServer server(loop, {{"/health", {.status = 500, .body = ""}}});
  HealthCheckSpec spec = vllm();
  spec.config.interval = 1h;
  check(server.endpoint(), spec, true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));

  server.set_answer("/health", {.body = ""});
  checker->check_now();
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::up; }));
  EXPECT_EQ(count(CheckResult::passed), 2u);
}

TEST_F(HealthChecks, SendOneRequestAtATime) {
  TestServer server(loop, {{"/health", {.body = "", .delay = 50ms}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(eventually(loop, [&] {
    checker->check_now();
    return count(CheckResult::passed) >= 3;
  }));
  EXPECT_EQ(server.max_concurrent(), 1u);
}

TEST_F(HealthChecks, ApplyANewSpecAndKeepTheirResults) {
  TestServer server(loop, {{"/health", {.body = ""}}, {"/ready", {.body = ""}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::passed));
  const auto since = checker->record().since;

  HealthCheckSpec spec = vllm();
  spec.config.path = "/ready";
  checker->update(spec, access_to(server.endpoint()), backend);

  ASSERT_TRUE(
      eventually(loop, [&] { return std::ranges::count(server.requests(), "GET /ready") > 0; }));
  EXPECT_EQ(checker->record().since, since);
  EXPECT_EQ(states.size(), 1u);
}

TEST_F(HealthChecks, DoNotTakeTheResultOfAnotherServerForItsSuccessors) {
  TestServer slow(loop, {{"/health", {.body = "", .delay = 300ms}}});
  TestServer broken(loop, {{"/health", {.status = 500, .body = ""}}});
  HealthCheckSpec rare = vllm();
  rare.config.interval = 1h;
  check(slow.endpoint(), rare);
  ASSERT_TRUE(eventually(loop, [&] { return !slow.requests().empty(); }));

  checker->update(rare, access_to(broken.endpoint()), backend);

  ASSERT_TRUE(eventually(loop, [&] { return checker->record().last.has_value(); }));
  EXPECT_EQ(broken.requests().size(), 1u) << "it is checked at once";
  EXPECT_EQ(count(CheckResult::passed), 0u);
}

TEST_F(HealthChecks, EndWhenTheServerIsAtAnotherAddress) {
  TestServer silent(loop, {{"/health", {.body = "", .delay = 1h}}});
  TestServer broken(loop, {{"/health", {.status = 500, .body = ""}}});
  HealthCheckSpec patient = vllm();
  patient.config.timeout = 1h;
  check(silent.endpoint(), patient);
  ASSERT_TRUE(eventually(loop, [&] { return !silent.requests().empty(); }));

  checker->update(patient, access_to(broken.endpoint()), backend);

  ASSERT_TRUE(settles(CheckResult::error)) << "it waits for the server that was there before";
}

TEST(HealthCheckKinds, FollowTheEngine) {
  const auto kind = [](std::string engine, HealthConfig config = {},
                       BackendProtocol protocol = BackendProtocol::http1,
                       std::vector<std::string> models = {}) {
    return resolved_check_kind({.config = std::move(config),
                                .engine = std::move(engine),
                                .models = std::move(models),
                                .protocol = protocol});
  };
  EXPECT_EQ(kind("vllm"), HealthCheckKind::http);
  EXPECT_EQ(kind("triton"), HealthCheckKind::http);
  EXPECT_EQ(kind("triton", {}, BackendProtocol::http2), HealthCheckKind::grpc);
  EXPECT_EQ(kind("tfserving"), HealthCheckKind::tcp);
  EXPECT_EQ(kind("tfserving", {.check = HealthCheckKind::http}), HealthCheckKind::tcp);
  EXPECT_EQ(kind("tfserving", {}, BackendProtocol::http1, {"m"}), HealthCheckKind::http);
  EXPECT_EQ(kind("generic", {.check = HealthCheckKind::http}), HealthCheckKind::http);
  EXPECT_EQ(kind("generic"), HealthCheckKind::off);
  EXPECT_EQ(kind("auto", {.model = ModelCheck::generate}, BackendProtocol::http1, {"m"}),
            HealthCheckKind::off);
  EXPECT_EQ(resolved_check_kind({.config = {}, .engine = "generic", .engine_is_auto = true}),
            HealthCheckKind::tcp);
  EXPECT_EQ(resolved_check_kind({.config = {}, .engine = "vllm", .engine_is_auto = true}),
            HealthCheckKind::http);
  EXPECT_EQ(kind("generic", {.path = "/ready"}), HealthCheckKind::http);
  EXPECT_EQ(kind("generic", {.service = "a.B"}), HealthCheckKind::grpc);
  EXPECT_EQ(kind("generic", {.model = ModelCheck::required}, BackendProtocol::http1, {"m"}),
            HealthCheckKind::http);
  EXPECT_EQ(kind("vllm", {.check = HealthCheckKind::off}), HealthCheckKind::off);
  EXPECT_EQ(kind("vllm", {.check = HealthCheckKind::tcp}), HealthCheckKind::tcp);
}

}  // namespace
}  // namespace evenkeel
