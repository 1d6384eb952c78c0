#include "evenkeel/admin/admin_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <utility>

#include "evenkeel/admin/control.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view two_pools = R"(
pools:
  - name: chat
    backends: [{address: "127.0.0.1:8001", weight: 5}, "127.0.0.1:8002"]
  - name: embed
    backends: ["127.0.0.1:8002", "[::1]:8003"]
routes:
  - {match: {path: /embed}, pool: embed}
  - {match: {path: /**}, pool: chat}
)";

/// Notes what it is asked for, and does nothing.
struct RecordingControl final : Control {
  Task<std::vector<Problem>> reload() override {
    ++reloads;
    return std::vector<Problem>(problems);
  }
  Task<ReloadPreview> preview(std::string text) override {
    previewed.push_back(std::move(text));
    return ReloadPreview{.problems = problems};
  }
  Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                std::uint32_t weight) override {
    weights.push_back(pool + " " + backend + " " + std::to_string(weight));
    return Result<Done>(Done{});
  }

  int reloads = 0;
  std::vector<Problem> problems;
  std::vector<std::string> weights;
  std::vector<std::string> previewed;
};

struct ApiRequest {
  std::string_view method = "GET";
  std::string_view target;
  std::string_view body = {};
  std::vector<std::pair<std::string_view, std::string_view>> fields = {};
  std::string_view client = "127.0.0.1";
  std::string_view host = "127.0.0.1:9901";
};

struct ApiReply {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> fields;
};

Result<std::string> read_all(Body& body) {
  std::string text;
  while (true) {
    Task<Result<Chunk>> reading = body.read();
    auto chunk = reading.take();
    if (!chunk) return std::move(chunk.error());
    text += chunk->bytes;
    if (chunk->last) return text;
  }
}

/// An admin listener's handler without the listener.
class AdminApi : public testing::Test {
 protected:
  AdminApi() {
    LoadResult loaded = read_config(two_pools, "test.yaml", {});
    EXPECT_THAT(loaded.problems, IsEmpty());
    config_ = loaded.config;
    auto pool_set = PoolSet::build(config_);
    EXPECT_TRUE(pool_set.ok());
    status_.update([&](RuntimeStatus& status) {
      status.config = std::make_shared<const Config>(config_);
      status.pool_set = *pool_set;
    });
    runtime_.status = &status_;
    runtime_.connections = [] { return std::uint64_t{0}; };
    runtime_.metrics_registry = &metrics_registry_;
    runtime_.control = &control_;
    handler_.emplace(loop_, runtime_);
  }

  ApiReply ask(const ApiRequest& ask) {
    Request request{.method = ask.method, .authority = ask.host, .path = ask.target};
    for (const auto& [name, value] : ask.fields) request.fields.add(name, value);
    if (!ask.body.empty()) request.body = make_body(std::string(ask.body));
    request.info.identity.client = ask.client;
    auto response = handler_->handle(request).take();
    if (!response) {
      ADD_FAILURE() << response.error().detail;
      return {};
    }
    ApiReply reply{.status = response->status, .body = *read_all(*response->body)};
    for (const Field& field : response->fields) {
      reply.fields[std::string(field.name())] = field.value();
    }
    return reply;
  }
  ApiReply post(std::string_view target, std::string_view body = {}) {
    return ask({.method = "POST", .target = target, .body = body});
  }

  void use_token_file(const std::string& path) {
    config_.admin.token_file = path;
    status_.update(
        [&](RuntimeStatus& status) { status.config = std::make_shared<const Config>(config_); });
  }

  const Backend& backend(std::size_t pool, std::size_t number) {
    return *status_.snapshot()->pool_set->pools()[pool].state->backends()[number];
  }

  Loop loop_;
  Config config_;
  MetricsRegistry metrics_registry_{1};
  RecordingControl control_;
  RuntimeStatusPublisher status_{RuntimeStatus{}};
  RuntimeAccess runtime_;
  std::optional<AdminHandler> handler_;
};

TEST_F(AdminApi, DrainClosesABackendUntilUndrain) {
  const ApiReply drained = post("/api/v1/backends/127.0.0.1:8001/drain");

  EXPECT_EQ(drained.status, 200);
  EXPECT_THAT(drained.body, AllOf(HasSubstr(R"("id":"127.0.0.1:8001","pool":"chat")"),
                                  HasSubstr(R"("state":"draining")"),
                                  HasSubstr(R"("reason":"drained by an operator")")));
  EXPECT_TRUE(backend(0, 0).load().is_out(OutOfRotation::draining));
  EXPECT_TRUE(backend(0, 1).load().in_rotation());

  const ApiReply undrained = post("/api/v1/backends/127.0.0.1:8001/undrain");

  EXPECT_EQ(undrained.status, 200);
  EXPECT_THAT(undrained.body, AllOf(HasSubstr(R"("state":"up")"), HasSubstr(R"("reason":null)")));
  EXPECT_TRUE(backend(0, 0).load().in_rotation());
}

TEST_F(AdminApi, BackendIdMayBePercentEncoded) {
  EXPECT_EQ(post("/api/v1/backends/%5B%3A%3a1%5D%3A8003/drain").status, 200);

  EXPECT_TRUE(backend(1, 1).load().is_out(OutOfRotation::draining));
}

TEST_F(AdminApi, AmbiguousBackendIdNeedsThePool) {
  const ApiReply unclear = post("/api/v1/backends/127.0.0.1:8002/drain");

  EXPECT_EQ(unclear.status, 409);
  EXPECT_THAT(unclear.body,
              AllOf(HasSubstr(R"({"error":)"), HasSubstr("chat, embed"), HasSubstr("?pool=NAME")));
  EXPECT_TRUE(backend(0, 1).load().in_rotation());
  EXPECT_TRUE(backend(1, 0).load().in_rotation());

  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8002/drain?verbose&pool=embed").status, 200);
  EXPECT_TRUE(backend(0, 1).load().in_rotation());
  EXPECT_TRUE(backend(1, 0).load().is_out(OutOfRotation::draining));
}

TEST_F(AdminApi, UnknownPathOrBackendIs404) {
  const std::map<std::string_view, std::string_view> wrong = {
      {"/api/v1/backends/127.0.0.1:9/drain", "no pool has a backend '127.0.0.1:9'"},
      {"/api/v1/backends/127.0.0.1:8001/drain?pool=embed", "pool 'embed' has no backend"},
      {"/api/v1/backends/127.0.0.1:8001/drain?pool=", "pool '' has no backend"},
      {"/api/v1/backends/127.0.0.1:8001/explode", "no such endpoint"},
      {"/api/v1/backends//drain", "no such endpoint"},
      {"/api/v1/backends/drain", "no such endpoint"},
      {"/api/v1/reload/", "no such endpoint"},
  };
  for (const auto& [target, error] : wrong) {
    const ApiReply reply = post(target);
    EXPECT_EQ(reply.status, 404) << target;
    EXPECT_THAT(reply.body, AllOf(HasSubstr(R"({"error":")"), HasSubstr(error))) << target;
  }
}

TEST_F(AdminApi, ChangesRequirePostAndReadsRejectIt) {
  for (const std::string_view target :
       {"/api/v1/reload", "/api/v1/backends/127.0.0.1:8001/drain"}) {
    for (const std::string_view method : {"GET", "HEAD", "PUT", "DELETE"}) {
      const ApiReply reply = ask({.method = method, .target = target});
      EXPECT_EQ(reply.status, 405) << method << target;
      EXPECT_EQ(reply.fields.at("allow"), "POST");
    }
  }
  const ApiReply reply = post("/api/v1/status");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.fields.at("allow"), "GET, HEAD");
  EXPECT_EQ(control_.reloads, 0);
  EXPECT_TRUE(backend(0, 0).load().in_rotation());
}

TEST_F(AdminApi, SetWeightIsPassedToControl) {
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8001/weight", R"({"weight": 7})").status, 200);
  EXPECT_EQ(post("/api/v1/backends/127.0.0.1:8002/weight?pool=embed", R"({"weight":1000})").status,
            200);

  EXPECT_THAT(control_.weights, ElementsAre("chat 127.0.0.1:8001 7", "embed 127.0.0.1:8002 1000"));
}

TEST_F(AdminApi, InvalidWeightIs422) {
  for (const std::string_view body :
       {"", "7", "{}", R"({"weight": 0})", R"({"weight": 1001})", R"({"weight": 1.5})",
        R"({"weight": "7"})", R"({"weight": 7, "pool": "chat"})", R"({"weight": 1e400})",
        R"({"weight": 7)", R"({"weight": [7]})", "weight=7"}) {
    const ApiReply reply = post("/api/v1/backends/127.0.0.1:8001/weight", body);
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
  const ApiReply refused = post("/api/v1/reload");

  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(refused.body, problems_json(control_.problems) + "\n");
}

TEST_F(AdminApi, StatusReportsTheLastReload) {
  EXPECT_THAT(ask({.target = "/api/v1/status"}).body,
              HasSubstr(R"("last_reload_ok":true,"errors":[])"));

  status_.update([](RuntimeStatus& status) {
    status.reload_problems = {{.file = "a.yaml", .line = 3, .column = 5, .message = "no"}};
  });

  EXPECT_THAT(ask({.target = "/api/v1/status"}).body,
              HasSubstr(R"("last_reload_ok":false,"errors":[{"file":"a.yaml","line":3,"column":5,)"
                        R"("path":"","message":"no","help":"","severity":"error"}])"));
}

TEST_F(AdminApi, CrossSiteChangesAreRefused) {
  const std::vector<ApiRequest> pages = {
      {.host = "evil.example:9901"},
      {.fields = {{"origin", "https://evil.example"}}},
      {.fields = {{"origin", "null"}}},
      {.fields = {{"origin", "http://203.0.113.5"}}},     // an address is no proof of being us
      {.fields = {{"origin", "http://127.0.0.1:3000"}}},  // nor is being on this machine
      {.fields = {{"referer", "https://evil.example/form"}}},
      {.fields = {{"sec-fetch-site", "cross-site"}}},
      {.fields = {{"sec-fetch-site", "same-site"}, {"content-type", "text/plain"}}},
  };
  for (ApiRequest page : pages) {
    page.method = "POST";
    page.target = "/api/v1/reload";
    const ApiReply reply = ask(page);
    EXPECT_EQ(reply.status, 403) << page.host << (page.fields.empty() ? "" : page.fields[0].second);
    EXPECT_THAT(reply.body, HasSubstr(R"({"error":)"));
  }
  EXPECT_EQ(control_.reloads, 0);

  const auto own_page = ask({.method = "POST",
                             .target = "/api/v1/reload",
                             .fields = {{"origin", "http://127.0.0.1:9901"},
                                        {"sec-fetch-site", "same-origin"},
                                        {"referer", "http://127.0.0.1:9901/ui/"}}});
  EXPECT_EQ(own_page.status, 200);
}

TEST_F(AdminApi, RemoteChangesNeedAToken) {
  for (const std::string_view here : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(ask({.method = "POST", .target = "/api/v1/reload", .client = here}).status, 200);
  }
  control_.reloads = 0;
  for (const std::string_view there : {"10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", ""}) {
    const ApiReply reply = ask({.method = "POST", .target = "/api/v1/reload", .client = there});
    EXPECT_EQ(reply.status, 403) << there;
    EXPECT_THAT(reply.body, HasSubstr("admin.token_file"));
  }
  EXPECT_EQ(control_.reloads, 0);
  EXPECT_EQ(ask({.target = "/api/v1/status", .client = "10.0.0.1"}).status, 200);
}

/// A token's file, which goes with it.
struct TokenFile {
  explicit TokenFile(std::string_view text) {
    char name[] = "/tmp/evenkeel-token-XXXXXX";
    close(mkstemp(name));
    path = name;
    write(text);
  }
  ~TokenFile() { unlink(path.c_str()); }
  void write(std::string_view text) const { std::ofstream(path) << text; }
  std::string path;
};

TEST_F(AdminApi, RemoteChangesWithTheTokenAreAllowed) {
  const TokenFile file("correct-horse-battery\n");
  use_token_file(file.path);
  const auto reload_with = [&](std::string_view credentials) {
    return ask({.method = "POST",
                .target = "/api/v1/reload",
                .fields = {{"authorization", credentials}},
                .client = "10.0.0.1"})
        .status;
  };

  const ApiReply without =
      ask({.method = "POST", .target = "/api/v1/reload", .client = "10.0.0.1"});
  EXPECT_EQ(without.status, 401);
  EXPECT_EQ(without.fields.at("www-authenticate"), "Bearer");
  EXPECT_EQ(reload_with("Bearer correct-horse-batterz"), 403);
  EXPECT_EQ(reload_with("Bearer correct-horse"), 403);
  EXPECT_EQ(reload_with("Basic correct-horse-battery"), 401);
  EXPECT_EQ(control_.reloads, 0);
  EXPECT_EQ(reload_with("Bearer correct-horse-battery"), 200);
  EXPECT_EQ(reload_with("bearer  correct-horse-battery"), 200);

  file.write("another-horse-battery");
  EXPECT_EQ(reload_with("Bearer correct-horse-battery"), 403) << "read anew";
  EXPECT_EQ(reload_with("Bearer another-horse-battery"), 200);
}

TEST_F(AdminApi, EmptyOrMissingTokenFileRefusesChanges) {
  const TokenFile file("\n");
  for (const std::string& path : {file.path, file.path + ".gone"}) {
    use_token_file(path);
    for (const std::string_view credentials : {"Bearer ", "Bearer x", "Bearer"}) {
      const ApiReply reply = ask({.method = "POST",
                                  .target = "/api/v1/reload",
                                  .fields = {{"authorization", credentials}},
                                  .client = "10.0.0.1"});
      EXPECT_GE(reply.status, 401);
      EXPECT_LE(reply.status, 403);
    }
  }
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminApi, PolledValuesHaveAnAgeAndUnknownOnesAreNull) {
  backend(0, 0).load().signals().publish({.running = 3, .waiting = 4, .kv_cache_ratio = 0.5},
                                         Clock::now() - std::chrono::seconds(2), 0);

  const std::string reply = ask({.target = "/api/v1/backends"}).body;
  EXPECT_THAT(reply, HasSubstr(R"("running":3,"waiting":4,"kv_cache_ratio":0.5,)"
                               R"("gpu_utilization_ratio":null,"gpu_memory_used_bytes":null)"));
  EXPECT_THAT(reply, HasSubstr(R"("polled":{"age_seconds":2.)"));
  const std::string page = ask({.target = "/metrics"}).body;
  const std::string series = R"({pool="chat",backend="127.0.0.1:8001"} )";
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_running_requests" + series + "3\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_waiting_requests" + series + "4\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_kv_cache_usage_ratio" + series + "0.5\n"));
  EXPECT_THAT(page, HasSubstr("evenkeel_backend_polled_age_seconds" + series + "2."));
  EXPECT_THAT(page, testing::Not(HasSubstr("evenkeel_backend_gpu_utilization_ratio{")));
}

TEST_F(AdminApi, EveryClosureMapsToAStateAndAReason) {
  const std::vector<std::pair<OutOfRotation, std::string_view>> closures = {
      {OutOfRotation::standby, "standby"},   {OutOfRotation::starting, "starting"},
      {OutOfRotation::unhealthy, "down"},    {OutOfRotation::unresolved, "down"},
      {OutOfRotation::draining, "draining"},
  };
  for (const auto& [closure, state] : closures) {  // each outranks those before it
    backend(0, 0).load().take_out(closure);
    EXPECT_EQ(state_of(backend(0, 0), Clock::now()), state);
    EXPECT_NE(reason_of(backend(0, 0), nullptr, Clock::now()), "");
  }
  EXPECT_THAT(ask({.target = "/metrics"}).body,
              AllOf(HasSubstr("evenkeel_backend_up{pool=\"chat\",backend=\"127.0.0.1:8001\"} 0\n"),
                    HasSubstr("backend=\"127.0.0.1:8001\",state=\"draining\"} 1\n")));
}

TEST_F(AdminApi, StateSinceSurvivesAReload) {
  using std::chrono::seconds;
  const BackendStateHistory::Time start{seconds(1'700'000'000)};
  BackendStateHistory history;
  history.update(status_.snapshot()->pool_set, Clock::now(), start);
  backend(0, 0).load().take_out(OutOfRotation::draining);
  history.update(status_.snapshot()->pool_set, Clock::now(), start + seconds(1));
  history.update(status_.snapshot()->pool_set, Clock::now(), start + seconds(2));
  EXPECT_EQ(history.since(0, 0), start + seconds(1));
  EXPECT_EQ(history.since(0, 1), start);

  Config changed = config_;
  std::swap(changed.pools[0], changed.pools[1]);
  changed.pools[0].backends.insert(changed.pools[0].backends.begin(),
                                   BackendConfig{.address = {"127.0.0.1", 8009}});
  auto pool_set = PoolSet::build(changed);
  ASSERT_TRUE(pool_set.ok());
  (*pool_set)->pools()[1].state->backends()[0]->load().take_out(OutOfRotation::draining);
  history.update(*pool_set, Clock::now(), start + seconds(3));

  EXPECT_EQ(history.since(1, 0), start + seconds(1)) << "still draining";
  EXPECT_EQ(history.since(0, 0), start + seconds(3)) << "new";
  EXPECT_EQ(history.since(0, 1), start);
}

}  // namespace
}  // namespace evenkeel
