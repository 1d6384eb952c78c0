// Sessions and tenants as the admin API shows them, and the snapshot for clients that poll.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "admin/running_admin.h"
#include "admin/sessions_cache.h"
#include "admin/tenant_usage.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/json/value.h"

namespace evenkeel::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr std::string_view two_kinds_of_pools = R"(
pools:
  - name: chat
    affinity: {by: ["header:x-session"], max_sessions: 1000, ttl: 10m}
    backends: ["127.0.0.1:8001", "127.0.0.1:8002"]
  - {name: embed, backends: ["127.0.0.1:8003"]}
routes:
  - {match: {path: /embed}, pool: embed}
  - {match: {path: /**}, pool: chat}
)";

class UsageDocuments : public RunningAdmin {
 protected:
  const Affinity& affinity() const {
    return *status_.snapshot()->pool_set->pools()[0].state->affinity();
  }
  const BackendPtr& chat_backend(std::size_t number) const {
    return status_.snapshot()->pool_set->pools()[0].state->backends()[number];
  }
  /// Pins the session to a backend, from where it is.
  void place(std::uint64_t session, std::size_t number) {
    const Instant now = Clock::now();
    const SessionHint hint{.key = session};
    ASSERT_TRUE(affinity().pin(hint, affinity().find(hint, now), chat_backend(number), now));
  }
  JsonValue document(std::string_view target) {
    const RawReply reply = get(target);
    EXPECT_EQ(reply.status, 200) << reply.body;
    auto parsed = parse_json(reply.body);
    EXPECT_TRUE(parsed.ok());
    return parsed ? std::move(*parsed) : JsonValue();
  }
};

TEST_F(UsageDocuments, ShowWhereSessionsAreAndTheirMoves) {
  start(two_kinds_of_pools);
  place(1, 0);
  place(2, 0);
  place(2, 1);

  const JsonValue pools = document("/api/v1/sessions");

  ASSERT_EQ(pools.items().size(), 1u);
  const JsonValue& chat = pools.items()[0];
  EXPECT_EQ(chat["pool"].text(), "chat");
  EXPECT_EQ(chat["mode"].text(), "hard");
  EXPECT_EQ(chat["ttl_seconds"].number(), 600);
  EXPECT_EQ(chat["max_sessions"].number(), 1000);
  EXPECT_EQ(chat["sessions"].number(), 2);
  EXPECT_EQ(chat["misses_total"].number(), 2);
  EXPECT_EQ(chat["moves_total"].number(), 1);
  EXPECT_EQ(chat["backends"].items()[0]["sessions"].number(), 1);
  EXPECT_EQ(chat["backends"].items()[1]["sessions"].number(), 1);
  ASSERT_EQ(chat["newest"].items().size(), 2u);
  ASSERT_EQ(chat["moves"].items().size(), 1u);
  EXPECT_EQ(chat["moves"].items()[0]["from"].text(), "127.0.0.1:8001");
  EXPECT_EQ(chat["moves"].items()[0]["to"].text(), "127.0.0.1:8002");
}

TEST_F(UsageDocuments, ShowSessionsByAHashThatTellsNothingOfTheirName) {
  start(two_kinds_of_pools);
  const std::uint64_t session = hash_of("user-17");
  place(session, 0);
  place(session, 1);

  const JsonValue pools = document("/api/v1/sessions");

  const JsonValue& chat = pools.items()[0];
  const std::string shown(chat["newest"].items()[0]["session"].text());
  EXPECT_THAT(shown, MatchesRegex("[0-9a-f]{16}"));
  EXPECT_NE(shown, fmt::format("{:016x}", session));
  EXPECT_NE(shown, fmt::format("{:016x}", mix(session)));
  EXPECT_EQ(chat["moves"].items()[0]["session"].text(), shown);
}

TEST_F(UsageDocuments, LookAtTheSessionsOnceInAWhile) {
  start(two_kinds_of_pools);
  Instant now = Clock::now();
  SessionsCache cache([&now] { return now; });
  const auto listed = [&] {
    const auto snapshot = status_.snapshot();
    return cache.sessions_of(snapshot->pool_set->pools()[0].state)->listing.newest.size();
  };
  place(1, 0);
  ASSERT_EQ(listed(), 1u);
  place(2, 0);

  now += SessionsCache::min_age - std::chrono::milliseconds(1);
  EXPECT_EQ(listed(), 1u);
  now += std::chrono::milliseconds(1);
  EXPECT_EQ(listed(), 2u);
}

TEST_F(UsageDocuments, ListAsManySessionsAsAreAskedFor) {
  start(two_kinds_of_pools);
  for (std::uint64_t session = 0; session < 60; ++session) place(session, 0);
  const auto listed = [&](std::string_view query) {
    return document("/api/v1/sessions?pool=chat" + std::string(query))
        .items()[0]["newest"]
        .items()
        .size();
  };

  EXPECT_EQ(listed(""), 50u);
  EXPECT_EQ(listed("&limit=3"), 3u);
  EXPECT_EQ(listed("&limit=0"), 0u);
  EXPECT_EQ(listed("&limit=1000"), 60u);
  for (const char* limit : {"1001", "-1", "x", ""}) {
    const RawReply reply = get("/api/v1/sessions?limit=" + std::string(limit));
    EXPECT_EQ(reply.status, 422) << limit;
    EXPECT_THAT(reply.body, HasSubstr("whole number from 0 to 1000")) << limit;
  }
}

TEST_F(UsageDocuments, SayWhichPoolsHaveNoSessions) {
  start(two_kinds_of_pools);

  const RawReply unknown = get("/api/v1/sessions?pool=caht");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("there is no pool 'caht'"));
  const RawReply without = get("/api/v1/sessions?pool=embed");
  EXPECT_EQ(without.status, 404);
  EXPECT_THAT(without.body, HasSubstr("pool 'embed' keeps no sessions: it has no `affinity`"));
}

TEST_F(UsageDocuments, AreForTheSameReadersAsTheRestOfTheApi) {
  start(two_kinds_of_pools);
  for (const char* path : {"/api/v1/sessions", "/api/v1/tenants", "/api/v1/snapshot"}) {
    EXPECT_EQ(exchange(request("GET", path, "origin: http://elsewhere.example\r\n")).status, 403);
    EXPECT_EQ(post(path).status, 405) << path;
  }
}

TEST_F(UsageDocuments, ShowNoTenantsWhereTheFileNamesNone) {
  start(two_kinds_of_pools);
  EXPECT_EQ(get("/api/v1/tenants").body, "[]\n");
}

TEST_F(UsageDocuments, ShowWhatIsUsedOfTheBudgetsOfPools) {
  start(R"(
pools:
  - {name: chat, backends: ["127.0.0.1:8001"], budget: {tokens: 10/day, cost: 2.5/month}}
  - {name: embed, backends: ["127.0.0.1:8003"]}
routes:
  - {match: {path: /embed}, pool: embed}
  - {match: {path: /**}, pool: chat}
)");
  const auto snapshot = status_.snapshot();
  const LimitTable budget(*snapshot->config, snapshot->config->pools[0]);
  snapshot->pool_set->limit_use()->of_file.take(budget.of_all()[1].quota, 500'000,
                                                QuotaTime::current());

  const JsonValue pools = document("/api/v1/pools");

  const JsonValue::List& limits = pools.items()[0]["budget"].items();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0]["limit"].text(), "10 tokens per day");
  EXPECT_EQ(limits[0]["used"].number(), 0);
  EXPECT_EQ(limits[1]["limit"].text(), "a cost of 2.5 per month");
  EXPECT_EQ(limits[1]["unit"].text(), "cost");
  EXPECT_EQ(limits[1]["amount"].number(), 2.5);
  EXPECT_EQ(limits[1]["used"].number(), 0.5);
  EXPECT_EQ(limits[1]["used_ratio"].number(), 0.2);
  EXPECT_TRUE(pools.items()[1]["budget"].items().empty());
}

TEST_F(UsageDocuments, ShowTenantsBesideTheirWeightAndPriority) {
  LabelUses uses(metrics_registry_.label_index());
  const std::uint32_t acme = uses.tenant("acme");
  uses.tenant("beta");
  start(std::string(two_kinds_of_pools) +
        "tenants: [{name: acme, weight: 2, priority: batch}, {name: beta}]\n");
  TenantMetrics& metrics = metrics_registry_.worker_metrics(0).tenant(acme);
  metrics.requests.add(3);
  metrics.tokens.add(TokenDirection::input, 30);
  metrics.tokens.add(TokenDirection::output, 10);
  metrics.in_flight.add(5);
  metrics.waiting.add(1);

  const JsonValue tenants = document("/api/v1/tenants");

  ASSERT_EQ(tenants.items().size(), 3u);
  const JsonValue& first = tenants.items()[0];
  EXPECT_EQ(first["name"].text(), "acme");
  EXPECT_EQ(first["weight"].number(), 2);
  EXPECT_EQ(first["priority"].text(), "batch");
  EXPECT_EQ(first["running"].number(), 4);
  EXPECT_EQ(first["waiting"].number(), 1);
  EXPECT_EQ(first["requests_total"].number(), 3);
  EXPECT_EQ(first["input_tokens_total"].number(), 30);
  EXPECT_EQ(first["output_tokens_total"].number(), 10);
  EXPECT_EQ(tenants.items()[1]["name"].text(), "beta");
  EXPECT_TRUE(tenants.items()[1]["priority"].is_null());
  EXPECT_EQ(tenants.items()[2]["name"].text(), "other");
}

TEST_F(UsageDocuments, ShowRatesAndSharesOfTheLastMinute) {
  LabelUses uses(metrics_registry_.label_index());
  const std::uint32_t acme = uses.tenant("acme");
  start(std::string(two_kinds_of_pools) + "tenants: [{name: acme}]\n");
  WorkerMetrics& worker = metrics_registry_.worker_metrics(0);
  worker.tenant(acme).tokens.add(TokenDirection::output, 5000);  // before
  RuntimeView view(runtime_);
  TenantUsage usage;
  EXPECT_TRUE(usage.document(view)[0]["tokens_ratio"].is_null());
  usage.sample(view);
  worker.tenant(acme).requests.add(3);
  worker.tenant(acme).tokens.add(TokenDirection::input, 30);
  worker.tenant(acme).tokens.add(TokenDirection::output, 10);
  worker.tenant(LabelIndex::other_tenant).tokens.add(TokenDirection::output, 120);
  view.now += std::chrono::seconds(10);

  const JsonValue::List tenants = usage.document(view);

  EXPECT_EQ(tenants[0]["requests_per_second"].number(), 0.3);
  EXPECT_EQ(tenants[0]["output_tokens_per_second"].number(), 1);
  EXPECT_EQ(tenants[0]["tokens_ratio"].number(), 0.25);
  EXPECT_EQ(tenants[1]["tokens_ratio"].number(), 0.75);
  usage.sample(view);
  view.now += TenantUsage::window;
  usage.sample(view);  // forgets the first
  EXPECT_EQ(usage.document(view)[0]["requests_per_second"].number(), 0);
}

TEST_F(UsageDocuments, HaveASnapshotForClientsThatPoll) {
  start(two_kinds_of_pools);

  const RawReply reply = get("/api/v1/snapshot");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, AllOf(HasSubstr(R"("status":{"version":"1.2.3")"),
                                HasSubstr(R"("pools":[{"name":"chat")"),
                                HasSubstr(R"("backends":[{"id":"127.0.0.1:8001")"),
                                HasSubstr(R"("overview":{)"), Not(HasSubstr("event:"))));
}

}  // namespace
}  // namespace evenkeel::testing
