#include "evenkeel/fleet/health_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "fleet/small_server.h"
#include "wire/peer.h"

namespace evenkeel {

void PrintTo(HealthState state, std::ostream* out) { *out << static_cast<int>(state); }
void PrintTo(CheckResult result, std::ostream* out) { *out << word_of(result); }

namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Answer = SmallServer::Answer;

std::string models(const std::string& name) { return R"({"data":[{"id":")" + name + R"("}]})"; }

class HealthChecks : public testing::Test {
 protected:
  /// Checks as `question` says. Answers that are to come take a while where machines are busy.
  void check(const Endpoint& endpoint, HealthQuestion question, bool serving = false) {
    if (question.config.timeout == HealthConfig{}.timeout) question.config.timeout = 20s;
    checker.emplace(loop, 7, std::move(question), access_to(endpoint), backend, serving,
                    [this](const HealthRecord& record) { states.push_back(record.state); });
  }
  static ServerAccess access_to(const Endpoint& endpoint) {
    return {
        .addresses = {endpoint}, .authority = endpoint.text(), .authorization = {}, .links = {}};
  }
  static HealthQuestion vllm(std::vector<std::string> names = {}) {
    return {.config = {.interval = 20ms}, .engine = "vllm", .models = std::move(names)};
  }
  bool settles(CheckResult result) {
    return eventually(loop, [&] { return checker->record().last == result; });
  }
  std::uint64_t count(CheckResult result) const {
    return checker->record().checks[static_cast<std::size_t>(result)];
  }
  Load& load() const { return backend->load(); }

  Loop loop;
  BackendPtr backend = std::make_shared<Backend>(BackendSpec{.id = "b", .address = "b"});
  std::vector<HealthState> states;
  std::optional<HealthChecker> checker;
};

TEST_F(HealthChecks, KeepABackendClosedUntilTheFirstResult) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  check(server.endpoint(), vllm());
  EXPECT_TRUE(load().closed(Closure::starting));
  EXPECT_EQ(checker->record().state, HealthState::starting);

  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_TRUE(load().open());
  EXPECT_THAT(states, ElementsAre(HealthState::up));
  EXPECT_EQ(checker->record().reason, "");
}

TEST_F(HealthChecks, LeaveAServingBackendOpenUntilTheySpeakAgainstIt) {
  SmallServer server(loop, {{"/health", {.status = 500, .body = ""}}});
  check(server.endpoint(), vllm(), true);
  EXPECT_TRUE(load().open());

  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_GE(count(CheckResult::error), 3u);
  EXPECT_TRUE(load().closed(Closure::unhealthy));
}

TEST_F(HealthChecks, AreMadeOverOneConnection) {
  SmallServer server(loop, {{"/health", {.body = "ok"}}});
  HealthQuestion question = vllm();
  question.engine = "tgi";
  check(server.endpoint(), question);

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 5; }));
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(HealthChecks, ComeAnewWhereConnectionsOutliveTheListener) {
  SmallServer server(loop,
                     {{"/health", {.body = "ok"}}, {"/is_sleeping", {.status = 404, .body = ""}}});
  check(server.endpoint(), vllm());

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 5; }));
  EXPECT_GE(server.connections(), 5u);
  EXPECT_EQ(std::ranges::count(server.asked(), "GET /is_sleeping"), 1);  // it knows of no sleep
}

TEST_F(HealthChecks, TakeARefusalForAStartAndLaterForAnEnd) {
  check(closed_endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::refused));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  EXPECT_EQ(checker->record().reason, "Connection refused");
  checker.reset();

  check(closed_endpoint(), vllm(), true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_EQ(checker->record().reason, "Connection refused");
}

TEST_F(HealthChecks, RunOutOfTime) {
  SmallServer server(loop, {{"/health", {.body = std::nullopt}}});
  HealthQuestion question = vllm();
  question.config.timeout = 100ms;
  check(server.endpoint(), question);

  ASSERT_TRUE(settles(CheckResult::timeout));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "GET /health: no answer in time");
}

TEST_F(HealthChecks, HoldNoDelayAgainstAServerThatAnswersOthersMeanwhile) {
  SmallServer server(loop, {{"/health", {.body = std::nullopt}}});
  HealthQuestion question = vllm();
  question.config.timeout = 50ms;
  check(server.endpoint(), question, true);

  ASSERT_TRUE(eventually(loop, [&] {
    load().record_first_byte(1ms, Clock::now());  // a request of somebody's
    return count(CheckResult::timeout) >= 5;
  }));
  EXPECT_EQ(checker->record().state, HealthState::up);

  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
}

TEST_F(HealthChecks, AskForTheModelsOfThePool) {
  SmallServer server(loop, {{"/health", {.body = ""}}, {"/v1/models", {.body = models("a")}}});
  HealthQuestion question = vllm({"a"});
  question.config.model = ModelCheck::required;
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_THAT(checker->record().models, ElementsAre("a"));
  checker.reset();

  question.models = {"a", "b"};
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::model_missing));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "it does not serve the model 'b'");
}

TEST_F(HealthChecks, OfTritonAskForItsModelsInsteadOfTheServerWhichFailsWithAnyOfThem) {
  SmallServer server(loop, {{"/v2/health/ready", {.status = 400, .body = ""}},
                            {"/v2/models/a/ready", {.body = ""}}});
  HealthQuestion question{.config = {.interval = 20ms}, .engine = "triton", .models = {"a"}};
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::not_ready));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  checker.reset();

  question.config.model = ModelCheck::required;
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::passed));
}

TEST_F(HealthChecks, WaitForAModelThatIsListedBeforeItIsLoaded) {
  const std::string loading = R"({"error":{"message":"Loading model","code":503}})";
  SmallServer server(
      loop, {{"/health", {.status = 503, .body = loading}}, {"/v1/models", {.body = models("a")}}});
  HealthQuestion question{.config = {.interval = 20ms}, .engine = "llamacpp", .models = {"a"}};
  question.config.model = ModelCheck::required;
  check(server.endpoint(), question);

  ASSERT_TRUE(settles(CheckResult::not_ready));
  EXPECT_EQ(checker->record().state, HealthState::starting);
  EXPECT_THAT(checker->record().reason, HasSubstr("Loading model"));
}

TEST_F(HealthChecks, OfVllmSeeThatItSleeps) {
  SmallServer server(
      loop, {{"/health", {.body = ""}}, {"/is_sleeping", {.body = R"({"is_sleeping":true})"}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::not_ready));
  EXPECT_THAT(checker->record().reason, HasSubstr("sleeps"));
}

TEST_F(HealthChecks, WantATokenFromEachModel) {
  SmallServer server(loop, {{"/health", {.body = ""}},
                            {"/v1/models", {.body = models("a")}},
                            {"/v1/completions", {.status = 500, .body = "boom"}}});
  HealthQuestion question = vllm({"a"});
  question.config.model = ModelCheck::generate;
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::no_token));
  EXPECT_EQ(checker->record().state, HealthState::down);
  EXPECT_EQ(checker->record().reason, "POST /v1/completions for 'a': 500 boom");

  server.say("/v1/completions", {.body = R"({"choices":[{"text":"a"}]})"});
  ASSERT_TRUE(settles(CheckResult::passed));
  const auto tokens = [&] { return std::ranges::count(server.asked(), "POST /v1/completions"); };
  const auto asked = tokens();
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 10; }));
  EXPECT_EQ(tokens(), asked);  // one in ten seconds is enough
}

TEST_F(HealthChecks, MissATokenThatIsLateWhereOtherModelsMayAnswerMeanwhile) {
  SmallServer server(loop, {{"/health", {.body = ""}},
                            {"/v1/models", {.body = R"({"data":[{"id":"a"},{"id":"b"}]})"}},
                            {"/v1/completions", {.body = std::nullopt}}});
  HealthQuestion question = vllm({"a", "b"});
  question.config.model = ModelCheck::generate;
  question.config.timeout = 50ms;
  question.config.fall = 1;
  check(server.endpoint(), question, true);

  ASSERT_TRUE(eventually(loop, [&] {
    load().record_first_byte(1ms, Clock::now());  // a request for another model
    return checker->record().state == HealthState::down;
  }));
  EXPECT_EQ(count(CheckResult::no_token), 1u);
  EXPECT_THAT(checker->record().reason, HasSubstr("POST /v1/completions for 'a'"));
}

TEST_F(HealthChecks, HoldNoTimeOfATokenAgainstALimitOfTheirOwn) {
  SmallServer server(
      loop, {{"/health", {.body = ""}},
             {"/v1/models", {.body = models("a")}},
             {"/v1/completions", {.body = R"({"choices":[{"text":"a"}]})", .delay = 2100ms}}});
  HealthQuestion question = vllm({"a"});
  question.config.model = ModelCheck::generate;
  question.config.latency = 2s;
  check(server.endpoint(), question);

  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 3; }));
  EXPECT_EQ(count(CheckResult::slow), 0u);
  EXPECT_EQ(std::ranges::count(server.asked(), "POST /v1/completions"), 1);
}

TEST_F(HealthChecks, InsistOnATokenOnceOneIsMissing) {
  SmallServer server(loop, {{"/health", {.body = ""}},
                            {"/v1/models", {.body = models("a")}},
                            {"/v1/completions", {.status = 500, .body = ""}}});
  HealthQuestion question = vllm({"a"});
  question.config.model = ModelCheck::generate;
  check(server.endpoint(), question, true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));
  EXPECT_EQ(count(CheckResult::passed), 0u);
}

TEST_F(HealthChecks, FailWhereTheyTakeTooLong) {
  SmallServer server(loop, {{"/health", {.body = "", .delay = 40ms}}});
  HealthQuestion question = vllm();
  question.config.latency = 10ms;
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::slow));
  EXPECT_THAT(checker->record().reason, HasSubstr("its limit is 0.010"));
}

TEST_F(HealthChecks, CarryTheKeyOfTheBackend) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  ServerAccess access = access_to(server.endpoint());
  access.authorization = "Bearer secret";
  checker.emplace(loop, 7, vllm(), access, backend, false, [](const HealthRecord&) {});
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(server.last_authorization(), "Bearer secret");
}

TEST_F(HealthChecks, OfConnectionsOnlyConnect) {
  SmallServer server(loop, {});
  HealthQuestion question = vllm();
  question.config.check = HealthCheckKind::tcp;
  check(server.endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 2; }));
  EXPECT_THAT(server.asked(), ElementsAre());
}

TEST_F(HealthChecks, EndTheBackOffOfABackendThatCanBeConnectedAgain) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  HealthQuestion question = vllm();
  question.config.interval = 1h;
  check(server.endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  backend->connect_failed(Clock::now());
  ASSERT_TRUE(load().avoided(Clock::now()));

  ASSERT_TRUE(eventually(loop, [&] {
    checker->look();
    return !load().suspect();
  }));
  EXPECT_EQ(server.connections(), 2u);  // the connection of before proves nothing
}

TEST_F(HealthChecks, ComeSoonOverANewConnectionWhenRequestsFail) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  HealthQuestion question = vllm();
  question.config.interval = 1h;
  check(server.endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  load().count_error(Fault::backend_closed);
  ASSERT_TRUE(eventually(loop, [&] {
    checker->look();
    return count(CheckResult::passed) == 2;
  }));
  EXPECT_EQ(server.connections(), 2u);
}

TEST_F(HealthChecks, ComeNoSoonerWhenRequestsAreLate) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  HealthQuestion question = vllm();
  question.config.interval = 1h;
  check(server.endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  load().count_error(Fault::first_byte_timeout);
  load().count_error(Fault::idle_timeout);
  const auto of_health = [&] { return std::ranges::count(server.asked(), "GET /health"); };
  EXPECT_FALSE(eventually(
      loop,
      [&] {
        checker->look();
        return of_health() > 1;
      },
      600ms));  // twice what a closer look would take
}

TEST_F(HealthChecks, ListNoMoreModelsThanPeopleRead) {
  std::string listed;
  for (int i = 0; i < 2000; ++i) listed += R"({"id":")" + std::to_string(i) + R"("},)";
  SmallServer server(loop, {{"/health", {.body = ""}},
                            {"/v1/models", {.body = R"({"data":[)" + listed + R"({"id":"a"}]})"}}});
  HealthQuestion question = vllm({"a"});
  question.config.model = ModelCheck::required;
  check(server.endpoint(), question);
  ASSERT_TRUE(settles(CheckResult::passed));
  EXPECT_EQ(checker->record().models.size(), 1000u);
}

TEST_F(HealthChecks, ThatComeOftenAreOverANewConnectionTooWhenRequestsFail) {
  SmallServer server(loop, {{"/health", {.body = ""}}});
  HealthQuestion question = vllm();
  question.engine = "tgi";
  check(server.endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) >= 2; }));
  ASSERT_EQ(server.connections(), 1u);

  load().count_error(Fault::backend_closed);
  checker->look();
  ASSERT_TRUE(eventually(loop, [&] { return server.connections() == 2; }));
}

TEST_F(HealthChecks, SeeAtOnceThatTheirConnectionHasEnded) {
  std::optional<SmallServer> server(std::in_place, loop,
                                    SmallServer::Answers{{"/health", {.body = ""}}});
  HealthQuestion question = vllm();
  question.config.interval = 1h;
  check(server->endpoint(), question);
  ASSERT_TRUE(eventually(loop, [&] { return count(CheckResult::passed) == 1; }));

  server.reset();
  ASSERT_TRUE(eventually(loop, [&] {
    checker->look();
    return checker->record().state == HealthState::down;
  }));
  EXPECT_EQ(checker->record().reason, "Connection refused");
}

TEST_F(HealthChecks, LookCloserWhileInDoubt) {
  SmallServer server(loop, {{"/health", {.status = 500, .body = ""}}});
  HealthQuestion question = vllm();
  question.config.interval = 1h;
  check(server.endpoint(), question, true);
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::down; }));

  server.say("/health", {.body = ""});
  checker->hurry();
  ASSERT_TRUE(eventually(loop, [&] { return checker->record().state == HealthState::up; }));
  EXPECT_EQ(count(CheckResult::passed), 2u);
}

TEST_F(HealthChecks, NeverAskTwoThingsAtATime) {
  SmallServer server(loop, {{"/health", {.body = "", .delay = 50ms}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(eventually(loop, [&] {
    checker->hurry();
    return count(CheckResult::passed) >= 3;
  }));
  EXPECT_EQ(server.most_at_a_time(), 1u);
}

TEST_F(HealthChecks, AskWhatTheNewFileSaysAndForgetNothing) {
  SmallServer server(loop, {{"/health", {.body = ""}}, {"/ready", {.body = ""}}});
  check(server.endpoint(), vllm());
  ASSERT_TRUE(settles(CheckResult::passed));
  const auto since = checker->record().since;

  HealthQuestion question = vllm();
  question.config.path = "/ready";
  checker->adopt(question, access_to(server.endpoint()), backend);

  ASSERT_TRUE(
      eventually(loop, [&] { return std::ranges::count(server.asked(), "GET /ready") > 0; }));
  EXPECT_EQ(checker->record().since, since);
  EXPECT_EQ(states.size(), 1u);
}

TEST(HealthCheckKinds, AreWhatTheEngineUnderstands) {
  const auto kind = [](std::string engine, HealthConfig config = {},
                       BackendProtocol protocol = BackendProtocol::http1,
                       std::vector<std::string> models = {}) {
    return kind_of({.config = std::move(config),
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
  EXPECT_EQ(kind_of({.config = {}, .engine = "generic", .detected = true}), HealthCheckKind::tcp);
  EXPECT_EQ(kind_of({.config = {}, .engine = "vllm", .detected = true}), HealthCheckKind::http);
  EXPECT_EQ(kind("generic", {.path = "/ready"}), HealthCheckKind::http);
  EXPECT_EQ(kind("generic", {.service = "a.B"}), HealthCheckKind::grpc);
  EXPECT_EQ(kind("generic", {.model = ModelCheck::required}, BackendProtocol::http1, {"m"}),
            HealthCheckKind::http);
  EXPECT_EQ(kind("vllm", {.check = HealthCheckKind::off}), HealthCheckKind::off);
  EXPECT_EQ(kind("vllm", {.check = HealthCheckKind::tcp}), HealthCheckKind::tcp);
}

}  // namespace
}  // namespace evenkeel
