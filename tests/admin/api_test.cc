// What each endpoint of the admin listener answers.
#include <map>

#include "admin/gzip.h"
#include "admin/running_admin.h"
#include "built_pools.h"
#include "evenkeel/admin/reported_state.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/log.h"

namespace evenkeel::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class AdminApi : public RunningAdmin {
 protected:
  AdminApi() { start(); }
};

TEST_F(AdminApi, DrainClosesABackendUntilUndrain) {
  const RawReply drained = post("/api/v1/backends/127.0.0.1:8001/drain");

  EXPECT_EQ(drained.status, 200);
  EXPECT_THAT(drained.body, AllOf(HasSubstr(R"("id":"127.0.0.1:8001","pool":"chat")"),
                                  HasSubstr(R"("state":"draining")"),
                                  HasSubstr(R"("reason":"drained by an operator")")));
  EXPECT_TRUE(backend(0, 0).state().is_out(OutOfRotation::draining));
  EXPECT_TRUE(backend(0, 1).state().in_rotation());

  const RawReply undrained = post("/api/v1/backends/127.0.0.1:8001/undrain");

  EXPECT_EQ(undrained.status, 200);
  EXPECT_THAT(undrained.body, AllOf(HasSubstr(R"("state":"up")"), HasSubstr(R"("reason":null)")));
  EXPECT_TRUE(backend(0, 0).state().in_rotation());
}

TEST_F(AdminApi, ADrainMayEndByItself) {
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8001/drain", R"({"for_seconds": 600})").status, 200);
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8001/drain").status, 200);
  EXPECT_THAT(control_.drain_ends,
              ElementsAre("chat 127.0.0.1:8001 ends", "chat 127.0.0.1:8001 lasts"));
  for (const char* body : {"600", R"({"for_seconds": 0})", R"({"for_seconds": "10m"})",
                           R"({"for_seconds": 1e12})", R"({"for": 600})"}) {
    const RawReply reply = post("/api/v1/backends/127.0.0.1:8001/drain", body);
    EXPECT_EQ(reply.status, 422) << body;
    EXPECT_THAT(reply.body, HasSubstr("for_seconds")) << body;
  }
}

TEST_F(AdminApi, TellsWhatIsThere) {
  const RawReply reply = get("/");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, AllOf(StartsWith("evenkeel 1.2.3: admin listener\n"),
                                HasSubstr("GET  /metrics "), HasSubstr("POST /api/v1/reload ")));
  EXPECT_EQ(post("/").status, 405);
  EXPECT_THAT(get("/nowhere").body, HasSubstr("no such endpoint; GET / lists them"));
}

TEST_F(AdminApi, NamesTheBackendsThatAreNear) {
  EXPECT_THAT(post("/api/v1/backends/127.0.0.1:8011/drain?pool=chat").body,
              HasSubstr("did you mean '127.0.0.1:8001'"));
  EXPECT_THAT(post("/api/v1/backends/127.0.0.1:8001/drain?pool=chta").body,
              HasSubstr("there is no pool 'chta'; did you mean 'chat'?"));
  EXPECT_THAT(post("/api/v1/backends/elsewhere/drain").body,
              HasSubstr("no pool has a backend 'elsewhere'; /api/v1/backends lists them"));
}

TEST_F(AdminApi, ListsTheLastRequestsToModelsTheLastOneFirst) {
  RecentRequest first{.started = 1'795'281'203'004'500, .model = "llama", .task = "chat"};
  first.request_id = "r-1";
  first.status = 200;
  first.attempt_count = 4;
  first.attempts[2] = {.backend = "127.0.0.1:8001", .outcome = "answered", .connect = 250};
  first.prompt_tokens = 9;
  first.first_token = 20'000;
  RecentRequest second{.started = first.started + 1'000'000, .model = "a\xff"};
  metrics_registry_.worker_metrics(0).recent_requests().record(first);
  metrics_registry_.worker_metrics(0).recent_requests().record(second);

  const RawReply reply = get("/api/v1/requests/recent");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(
      reply.body,
      AllOf(HasSubstr(R"("time":"2026-11-21T17:13:23.004Z","request_id":"r-1")"),
            HasSubstr(R"("model":"llama","task":"chat")"), HasSubstr(R"("attempts_total":4)"),
            HasSubstr(R"({"backend":"127.0.0.1:8001","outcome":"answered",)"
                      R"("connect_seconds":0.00025}])"),
            HasSubstr(R"("prompt_tokens":9,"completion_tokens":null)"),
            HasSubstr(R"("ttft_seconds":0.02,"tpot_seconds":null)")));
  EXPECT_LT(reply.body.find("\"a\xef\xbf\xbd\""), reply.body.find("llama"));
}

TEST_F(AdminApi, BackendIdMayBeWrittenOtherwise) {
  for (const char* id : {"[0:0::1]:8003", "http:%2F%2F[::1]:8003", "[::0001]:08003"}) {
    EXPECT_EQ(post("/api/v1/backends/" + std::string(id) + "/drain").status, 200) << id;
    EXPECT_TRUE(backend(1, 1).state().is_out(OutOfRotation::draining)) << id;
    EXPECT_EQ(post("/api/v1/backends/[::1]:8003/undrain").status, 200);
  }
  EXPECT_EQ(post("/api/v1/backends/[::ffff:127.0.0.1]:8001/drain").status, 200);
  EXPECT_TRUE(backend(0, 0).state().is_out(OutOfRotation::draining));
}

TEST_F(AdminApi, BackendIdMayBePercentEncodedOrNot) {
  EXPECT_EQ(post("/api/v1/backends/%5B%3A%3a1%5D%3A8003/drain").status, 200);
  EXPECT_TRUE(backend(1, 1).state().is_out(OutOfRotation::draining));

  EXPECT_EQ(post("/api/v1/backends/[::1]:8003/undrain").status, 200);
  EXPECT_FALSE(backend(1, 1).state().is_out(OutOfRotation::draining));
}

TEST_F(AdminApi, AmbiguousBackendIdNeedsThePool) {
  const RawReply unclear = post("/api/v1/backends/127.0.0.1:8002/drain");

  EXPECT_EQ(unclear.status, 409);
  EXPECT_THAT(unclear.body,
              AllOf(HasSubstr(R"({"error":)"), HasSubstr("chat, embed"), HasSubstr("?pool=NAME")));
  EXPECT_TRUE(backend(0, 1).state().in_rotation());
  EXPECT_TRUE(backend(1, 0).state().in_rotation());

  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8002/drain?verbose&pool=embed").status, 200);
  EXPECT_TRUE(backend(0, 1).state().in_rotation());
  EXPECT_TRUE(backend(1, 0).state().is_out(OutOfRotation::draining));
}

TEST_F(AdminApi, UnknownPathOrBackendIs404) {
  const std::map<std::string_view, std::string_view> wrong = {
      {"/api/v1/backends/127.0.0.1:9/drain", "no pool has a backend '127.0.0.1:9'"},
      {"/api/v1/backends/127.0.0.1:8001/drain?pool=embed", "pool 'embed' has no backend"},
      {"/api/v1/backends/127.0.0.1:8001/drain?pool=", "there is no pool ''"},
      {"/api/v1/backends/127.0.0.1:8001/explode", "no such endpoint"},
      {"/api/v1/backends//drain", "no such endpoint"},
      {"/api/v1/backends/drain", "no such endpoint"},
      {"/api/v1/reload/", "no such endpoint"},
  };
  for (const auto& [target, error] : wrong) {
    const RawReply reply = post(target);
    EXPECT_EQ(reply.status, 404) << target;
    EXPECT_THAT(reply.body, AllOf(HasSubstr(R"({"error":")"), HasSubstr(error))) << target;
  }
}

TEST_F(AdminApi, ChangesRequirePostAndReadsRejectIt) {
  for (const std::string_view target : {"/api/v1/reload", "/api/v1/upgrade", "/api/v1/check",
                                        "/api/v1/backends/127.0.0.1:8001/drain"}) {
    for (const std::string_view method : {"GET", "HEAD", "PUT", "DELETE"}) {
      const RawReply reply = exchange(request(method, target), method == "HEAD");
      EXPECT_EQ(reply.status, 405) << method << target;
      EXPECT_EQ(reply.fields.at("allow"), "POST");
    }
  }
  const RawReply reply = post("/api/v1/status");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.fields.at("allow"), "GET, HEAD");
  const RawReply both = exchange(request("PUT", "/api/v1/log"));
  EXPECT_EQ(both.status, 405);
  EXPECT_EQ(both.fields.at("allow"), "GET, HEAD, POST");
  EXPECT_EQ(control_.reloads, 0);
  EXPECT_TRUE(backend(0, 0).state().in_rotation());
}

TEST_F(AdminApi, SetWeightIsPassedToControl) {
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8001/weight", R"({"weight": 7})").status, 200);
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8002/weight?pool=embed", R"({"weight":1e3})").status,
            200);

  EXPECT_THAT(control_.weights, ElementsAre("chat 127.0.0.1:8001 7", "embed 127.0.0.1:8002 1000"));
}

TEST_F(AdminApi, InvalidWeightIs422) {
  for (const std::string_view body :
       {"", "7", "{}", R"({"weight": 0})", R"({"weight": 1001})", R"({"weight": 1.5})",
        R"({"weight": "7"})", R"({"weight": 7, "pool": "chat"})", R"({"weight": 1e400})",
        R"({"weight": 7)", R"({"weight": [7]})", "weight=7"}) {
    const RawReply reply = post("/api/v1/backends/127.0.0.1:8001/weight", body);
    EXPECT_EQ(reply.status, 422) << body;
    EXPECT_THAT(reply.body, HasSubstr("N from 1 to 1000")) << body;
  }
  const std::string long_body = R"({"weight": 7)" + std::string(20'000, ' ') + "}";
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8001/weight", long_body).status, 413);
  EXPECT_THAT(control_.weights, IsEmpty());
}

TEST_F(AdminApi, RejectedReloadReturnsItsProblems) {
  EXPECT_EQ(post("/api/v1/reload").status, 200);
  EXPECT_EQ(control_.reloads, 1);

  control_.problems = {{.file = "a.yaml", .line = 3, .column = 5, .path = "pools", .message = "m"}};
  const RawReply refused = post("/api/v1/reload");

  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(refused.body, problems_json(control_.problems) + "\n");
}

TEST_F(AdminApi, UpgradeReturnsTheStatusOrTheReason) {
  EXPECT_EQ(get("/api/v1/upgrade").status, 405);
  status_.update([](RuntimeStatus& status) { status.successor = 4711; });
  const RawReply done = post("/api/v1/upgrade");
  control_.busy = true;
  const RawReply failed = post("/api/v1/upgrade");

  EXPECT_EQ(control_.upgrades, 2);
  EXPECT_EQ(done.status, 200);
  EXPECT_THAT(done.body, HasSubstr(R"("taken_over_by":4711)"));
  EXPECT_EQ(failed.status, 422);
  EXPECT_THAT(failed.body, HasSubstr("the new process did not start"));
}

TEST_F(AdminApi, CheckReportsWhatAReloadOfATextWouldRefuseAndChange) {
  control_.problems = {{.file = "a.yaml", .line = 3, .column = 5, .path = "pools", .message = "m"}};

  const RawReply reply = post("/api/v1/check", "pools: []");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(control_.previews, ElementsAre("pools: []"));
  EXPECT_THAT(reply.body,
              AllOf(HasSubstr(R"({"problems":[{"file":"a.yaml","line":3,"column":5,)"),
                    HasSubstr(R"("changes":["pool chat: backend added"],"takeover":["workers"])")));
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminApi, CheckIsRefusedWhileAnotherOneIsInProgress) {
  control_.busy = true;

  const RawReply reply = post("/api/v1/check", "pools: []");

  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.fields.at("retry-after"), "1");
  EXPECT_THAT(reply.body, HasSubstr("another preview is in progress"));
}

TEST_F(AdminApi, StatusReportsTheLastReload) {
  EXPECT_THAT(get("/api/v1/status").body, HasSubstr(R"("last_reload_ok":true,"errors":[])"));

  status_.update([](RuntimeStatus& status) {
    status.reload_problems = {{.file = "a.yaml", .line = 3, .column = 5, .message = "no"}};
  });

  EXPECT_THAT(get("/api/v1/status").body,
              HasSubstr(R"("last_reload_ok":false,"errors":[{"file":"a.yaml","line":3,"column":5,)"
                        R"("path":"","message":"no","help":"")"));
}

TEST_F(AdminApi, PolledValuesHaveAnAgeAndUnknownOnesAreNull) {
  backend(0, 0).signals().publish({.running = 3, .waiting = 4, .kv_cache_ratio = 0.5},
                                  Clock::now() - std::chrono::seconds(2), 0);

  const std::string reply = get("/api/v1/backends").body;
  EXPECT_THAT(reply, HasSubstr(R"("running":3,"waiting":4,"kv_cache_ratio":0.5,)"
                               R"("gpu_utilization_ratio":null,"gpu_memory_used_bytes":null)"));
  EXPECT_THAT(reply, HasSubstr(R"("polled":{"age_seconds":2.)"));
  const std::string page = get("/metrics").body;
  const std::string series = R"({pool="chat",backend="127.0.0.1:8001"} )";
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_running_requests" + series + "3\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_waiting_requests" + series + "4\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_kv_cache_usage_ratio" + series + "0.5\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_polled_age_seconds" + series + "2."));
  EXPECT_THAT(page, Not(HasSubstr("evenkeel_backend_gpu_utilization_ratio{")));
}

TEST_F(AdminApi, EveryClosureMapsToAStateAndAReason) {
  const std::vector<std::pair<OutOfRotation, std::string_view>> closures = {
      {OutOfRotation::standby, "standby"},   {OutOfRotation::sleeping, "sleeping"},
      {OutOfRotation::starting, "starting"}, {OutOfRotation::unhealthy, "down"},
      {OutOfRotation::unresolved, "down"},   {OutOfRotation::draining, "draining"},
  };
  for (const auto& [closure, state] : closures) {  // each outranks those before it
    backend(0, 0).state().take_out(closure);
    EXPECT_EQ(state_of(backend(0, 0), Clock::now()), state);
    EXPECT_NE(reason_of(*status_.snapshot()->pool_set->pools()[0].state, backend(0, 0), nullptr,
                        Clock::now()),
              "");
  }
  EXPECT_THAT(get("/metrics").body,
              AllOf(HasSubstr("evenkeel_backend_up{pool=\"chat\",backend=\"127.0.0.1:8001\"} 0\n"),
                    HasSubstr("backend=\"127.0.0.1:8001\",state=\"draining\"} 1\n")));
}

TEST_F(AdminApi, StateSinceSurvivesAReload) {
  using std::chrono::seconds;
  const BackendStateHistory::Time start{seconds(1'700'000'000)};
  const auto pool_set = status_.snapshot()->pool_set;
  BackendStateHistory history;
  history.update(pool_set, Clock::now(), start);
  backend(0, 0).state().take_out(OutOfRotation::draining);
  history.update(pool_set, Clock::now(), start + seconds(1));
  history.update(pool_set, Clock::now(), start + seconds(2));
  EXPECT_EQ(history.since(0, 0), start + seconds(1));
  EXPECT_EQ(history.since(0, 1), start);

  Config changed = *status_.snapshot()->config;
  std::swap(changed.pools[0], changed.pools[1]);
  changed.pools[0].backends.insert(changed.pools[0].backends.begin(),
                                   BackendConfig{.address = {"127.0.0.1", 8009}});
  auto next = build_pools(changed);
  ASSERT_TRUE(next.ok());
  (*next)->pools()[1].state->backends()[0]->state().take_out(OutOfRotation::draining);
  history.update(*next, Clock::now(), start + seconds(3));

  EXPECT_EQ(history.since(1, 0), start + seconds(1)) << "still draining";
  EXPECT_EQ(history.since(0, 0), start + seconds(3)) << "new";
  EXPECT_EQ(history.since(0, 1), start);
}

TEST_F(AdminApi, SetsTheLevelOfTheLog) {
  EXPECT_THAT(post("/api/v1/log", R"({"level": "error"})").body,
              HasSubstr(R"({"level":"error","levels":{"access_log":"error","admin":"error",)"));
  EXPECT_EQ(log::level(), log::Level::error);
  for (const char* bad : {"", "error", "{}", R"({"level": "loud"})", R"({"level": 1})",
                          R"({"levels": 1})", R"({"levels": {}})", R"({"levels": {"dns": "loud"}})",
                          R"({"level": "info", "levels": {"none": "info"}})"}) {
    EXPECT_EQ(post("/api/v1/log", bad).status, 422) << bad;
  }
  EXPECT_EQ(log::level(), log::Level::error) << "what is not valid changes nothing";
  EXPECT_THAT(post("/api/v1/log", R"({"levels": {"helth": "info"}})").body,
              HasSubstr("unknown subsystem 'helth', available: access_log, "));
  EXPECT_THAT(
      post("/api/v1/log", R"({"level": "warnings"})").body,
      HasSubstr("unknown level 'warnings', available: debug, info, warning, error; did you mean "
                "'warning'?"));
  EXPECT_EQ(post("/api/v1/log", R"({"levels": {"dns": "debug"}})").status, 200);
  EXPECT_EQ(log::dns.level(), log::Level::debug);
  EXPECT_TRUE(log::dns.writes(log::Level::debug));
  EXPECT_FALSE(log::health.writes(log::Level::info));
  EXPECT_THAT(get("/api/v1/log").body, HasSubstr(R"("dns":"debug","health":"error")"));
  log::set_level(log::Level::info);
}

TEST_F(AdminApi, TellsWhyAPoolHasNoBackend) {
  EXPECT_THAT(get("/api/v1/pools").body, HasSubstr(R"("name":"chat","unavailable":null)"));
  for (const char* id : {"127.0.0.1:8001", "127.0.0.1:8002"})
    post(std::string("/api/v1/backends/") + id + "/drain?pool=chat");

  EXPECT_THAT(get("/api/v1/pools").body,
              HasSubstr(R"("name":"chat","unavailable":"all backends are drained")"));
}

TEST_F(AdminApi, ReadyzFollowsTheDaemonAndItsPools) {
  EXPECT_EQ(get("/readyz").body, "ready\n");
  EXPECT_THAT(get("/readyz?verbose").body, HasSubstr("pool chat: 2 of 2 backends up\n"));

  backend(0, 0).state().take_out(OutOfRotation::unhealthy);
  backend(0, 1).state().take_out(OutOfRotation::unhealthy);
  EXPECT_EQ(get("/readyz").status, 200) << "the other pool can serve";
  backend(1, 0).state().take_out(OutOfRotation::unhealthy);
  backend(1, 1).state().take_out(OutOfRotation::unhealthy);
  const RawReply none = get("/readyz");
  EXPECT_EQ(none.status, 503);
  EXPECT_EQ(none.body,
            "no pool has a backend that is up; chat: all backends are down; embed: all backends "
            "are down\n");

  status_.update([](RuntimeStatus& status) { status.draining = true; });
  const RawReply draining = get("/readyz");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(draining.body, "draining\n");
}

TEST_F(RunningAdmin, ReadyzMayRequireEveryPoolOrNone) {
  start(std::string(two_pools) + "admin: {readyz: all}\n");
  backend(1, 0).state().take_out(OutOfRotation::unhealthy);
  backend(1, 1).state().take_out(OutOfRotation::unhealthy);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/readyz").body,
            "not every pool has a backend that is up; embed: all backends are down\n");

  status_.update([](RuntimeStatus& status) {
    Config config = *status.config;
    config.admin.readyz = ReadyzRule::ignore_pools;
    status.config = std::make_shared<const Config>(config);
  });
  backend(0, 0).state().take_out(OutOfRotation::unhealthy);
  backend(0, 1).state().take_out(OutOfRotation::unhealthy);
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(AdminApi, HealthzReportsLoopsThatTurn) {
  const RawReply reply = get("/healthz");

  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "ok\n");
}

TEST_F(AdminApi, MetricsAreCompressedOnRequest) {
  const RawReply plain = get("/metrics");
  const RawReply compressed = get("/metrics", "accept-encoding: br, gzip;q=0.5\r\n");
  const RawReply refused = get("/metrics", "accept-encoding: gzip;q=0\r\n");

  EXPECT_THAT(plain.fields.at("content-type"), StartsWith("text/plain; version=0.0.4"));
  EXPECT_FALSE(plain.fields.contains("content-encoding"));
  EXPECT_FALSE(refused.fields.contains("content-encoding"));
  EXPECT_EQ(compressed.fields.at("content-encoding"), "gzip");
  EXPECT_THAT(compressed.body, StartsWith("\x1f\x8b"));
  EXPECT_LT(compressed.body.size(), plain.body.size() / 3);
}

TEST_F(AdminApi, MetricsAreInTheFormatThatIsAskedFor) {
  const std::string accept = "accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n";
  const RawReply open_metrics = get("/metrics", accept);
  const RawReply compressed = get("/metrics", accept + "accept-encoding: gzip\r\n");
  const RawReply text = get("/metrics");

  EXPECT_EQ(open_metrics.fields.at("content-type"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_THAT(open_metrics.body, EndsWith("\n# EOF\n"));
  EXPECT_EQ(compressed.fields.at("content-type"), open_metrics.fields.at("content-type"));
  EXPECT_THAT(gunzip(compressed.body), EndsWith("\n# EOF\n"));
  EXPECT_THAT(text.fields.at("content-type"), StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(text.body, Not(HasSubstr("# EOF")));
}

TEST_F(RunningAdmin, HostsNarrowWhoMayScrape) {
  start(std::string(two_pools) + "admin: {hosts: [lb.example, '*.mon.example']}\n");
  const auto status_of = [this](std::string_view target, const std::string& name) {
    return exchange("GET " + std::string(target) + " HTTP/1.1\r\nhost: " + name + "\r\n\r\n")
        .status;
  };
  for (const char* name : {"127.0.0.1:1", "localhost", "[::1]", "lb.example:9901", "a.MON.example"})
    EXPECT_EQ(status_of("/metrics", name), 200) << name;
  for (const char* name : {"other.example", "mon.example", "lb.example.evil"})
    EXPECT_EQ(status_of("/metrics", name), 403) << name;
  EXPECT_EQ(status_of("/api/v1/status", "lb.example"), 200);
  EXPECT_EQ(status_of("/api/v1/status", "a.mon.example"), 403) << "a glob opens no API";
}

TEST_F(AdminApi, ProbesAnswerToAnyHostAndTheApiDoesNot) {
  const std::string host = " HTTP/1.1\r\nhost: any.example\r\n\r\n";
  EXPECT_EQ(exchange("GET /metrics" + host).status, 200);
  EXPECT_EQ(exchange("GET /readyz" + host).status, 200);
  EXPECT_EQ(exchange("GET /healthz" + host).status, 200);
  EXPECT_EQ(exchange("GET /api/v1/status" + host).status, 403);
}

}  // namespace
}  // namespace evenkeel::testing
