#include "proxy/tenants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "built_pools.h"
#include "counted_allocations.h"
#include "evenkeel/net/sha256.h"
#include "proxy/chain.h"

namespace evenkeel {
namespace {

using HeaderFields = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr auto hash_of_key_a = "f10f781241e2246678b6b45c857069208152a53863e47fac33f607ab405006f4";
constexpr auto hash_of_second = "16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4";
constexpr auto hash_of_key_b = "a30534a53b23547377ddccbd1ac85a8a84c13db43493c16e55a6abc7b0eba634";

/// Two tenants; proxies in 10.0.0.0/8 name tenants on the listener "inside".
Config two_tenants() {
  std::string why;
  Config config;
  config.listeners = {{.name = "public"}, {.name = "inside"}};
  config.listeners[1].trusted_proxies = {*parse_network("10.0.0.0/8", why)};
  config.listeners[1].tenant_header = "x-tenant";
  config.tenants = {{.name = "acme", .keys_sha256 = {hash_of_key_a, hash_of_second}},
                    {.name = "beta", .keys_sha256 = {hash_of_key_b}}};
  return config;
}

class TenantsTest : public testing::Test {
 protected:
  /// The name of the tenant whose request this is; empty: none's.
  std::string tenant_of(const HeaderFields& fields, std::string_view listener = "public",
                        std::string_view peer = "10.1.2.3", std::string_view client = "") {
    Request request;
    for (const auto& [name, value] : fields) request.fields.add(name, value);
    request.info.identity.listener = listener;
    request.info.identity.client = client.empty() ? peer : client;
    if (!client.empty()) request.info.identity.peer = peer;
    tenants_.identify(request);
    index_ = request.info.identity.tenant.index;
    return std::string(request.info.identity.tenant.name);
  }

  LabelIndex label_index_;
  LabelUses label_uses_{label_index_};
  const Config config_ = two_tenants();
  Tenants tenants_{config_, label_uses_};
  std::uint32_t index_ = 0;  // of the last request
};

TEST_F(TenantsTest, AreFoundByTheirKeysInAnyOfThreeFields) {
  EXPECT_EQ(tenant_of({{"authorization", "Bearer key-a"}}), "acme");
  EXPECT_EQ(tenant_of({{"Authorization", "bearer  second"}}), "acme");
  EXPECT_EQ(tenant_of({{"X-Api-Key", "key-b"}}), "beta");
  EXPECT_EQ(tenant_of({{"api-key", "key-a"}}), "acme");
  EXPECT_EQ(tenant_of({{"authorization", "Bearer for-the-backend"}, {"x-api-key", "key-b"}}),
            "beta");
}

TEST_F(TenantsTest, AreNotFoundByAnythingElse) {
  EXPECT_EQ(tenant_of({}), "");
  EXPECT_EQ(index_, LabelIndex::other_tenant);
  for (const std::string_view value :
       {"", "Bearer", "Bearer ", "Bearer key-", "Bearer key-aa", "Bearer KEY-A", "Basic key-a",
        "key-a", "Bearer f10f781241e2246678b6b45c857069208152a53863e47fac33f607ab405006f4"}) {
    EXPECT_EQ(tenant_of({{"authorization", value}}), "") << value;
  }
  EXPECT_EQ(tenant_of({{"x-api-key", ""}}), "");
  EXPECT_EQ(tenant_of({{"x-api-key", std::string(5000, 'k')}}), "");
  EXPECT_EQ(tenant_of({{"x-tenant", "acme"}}), "");
}

TEST_F(TenantsTest, FollowTheTableOfKeysAtOnce) {
  EXPECT_EQ(tenant_of({{"x-api-key", "key-a"}}), "acme");
  const std::string text = std::string("sha256:") + hash_of_key_a + " tenant=beta name=moved";
  const std::vector<TenantConfig> without_keys = {{.name = "acme"}, {.name = "beta"}};

  tenants_.adopt(KeyTable::build(without_keys, text).table);
  EXPECT_EQ(tenant_of({{"x-api-key", "key-a"}}), "beta");
  EXPECT_EQ(tenant_of({{"x-api-key", "key-b"}}), "");

  tenants_.adopt(KeyTable::build(without_keys, text + " expires=2020-01-01T00:00:00Z").table);
  EXPECT_EQ(tenant_of({{"x-api-key", "key-a"}}), "");
}

TEST_F(TenantsTest, SayWhyARequestHasNone) {
  const auto state_with = [this](const HeaderFields& fields) {
    Request request;
    for (const auto& [name, value] : fields) request.fields.add(name, value);
    return tenants_.state_of_keys(request);
  };
  const std::string expired =
      std::string("sha256:") + hash_of_key_a + " tenant=acme expires=2020-01-01T00:00:00Z";
  tenants_.adopt(KeyTable::build({{.name = "acme"}}, expired).table);

  EXPECT_EQ(state_with({}), CredentialState::missing);
  EXPECT_EQ(state_with({{"authorization", "Basic key-a"}}), CredentialState::missing);
  EXPECT_EQ(state_with({{"api-key", "key-x"}}), CredentialState::unknown);
  EXPECT_EQ(state_with({{"api-key", "key-a"}}), CredentialState::expired);
}

class CertifiedTenantsTest : public testing::Test {
 protected:
  static Config config() {
    Config config;
    config.tenants = {{.name = "acme",
                       .keys_sha256 = {hash_of_key_a},
                       .certificates = {"spiffe://prod/ns/acme/*", "app.acme.internal"}},
                      {.name = "beta",
                       .keys_sha256 = {hash_of_key_b},
                       .certificates = {"spiffe://prod/ns/acme/sa/beta", "spiffe://prod/*"}}};
    return config;
  }

  /// A request over a connection whose client has a certificate with these names.
  Request& request_of(std::vector<std::string> names, const HeaderFields& fields = {},
                      double valid_for = 60) {
    request_ = {};
    certificate_ = {.names = std::move(names), .expires = unix_seconds() + valid_for};
    hash_ = "hash " + std::to_string(++certificates_);
    request_.info.identity.certificate_names = &certificate_;
    request_.info.identity.certificate_hash = hash_;
    for (const auto& [name, value] : fields) request_.fields.add(name, value);
    tenants_.identify(request_);
    return request_;
  }
  std::string tenant_of(std::vector<std::string> names, const HeaderFields& fields = {},
                        double valid_for = 60) {
    return std::string(request_of(std::move(names), fields, valid_for).info.identity.tenant.name);
  }

  LabelIndex label_index_;
  LabelUses label_uses_{label_index_};
  const Config config_ = config();
  Tenants tenants_{config_, label_uses_};
  CertificateNames certificate_;
  std::string hash_;
  int certificates_ = 0;
  Request request_;
};

TEST_F(CertifiedTenantsTest, AreFoundByANameOfTheClientsCertificate) {
  EXPECT_EQ(tenant_of({"app.acme.internal"}), "acme");
  EXPECT_EQ(tenant_of({"unknown.internal", "app.acme.internal"}), "acme");
  EXPECT_EQ(tenant_of({"spiffe://prod/ns/acme/sa/app"}), "acme");
  EXPECT_EQ(tenant_of({"spiffe://prod/ns/acme/sa/beta"}), "beta") << "a whole name goes first";
  EXPECT_EQ(tenant_of({"spiffe://prod/ns/other"}), "beta") << "then the longest beginning";
  EXPECT_EQ(tenant_of({"spiffe://prod/ns/acme2"}), "beta");
}

TEST_F(CertifiedTenantsTest, AreNotFoundByAnotherName) {
  EXPECT_EQ(tenant_of({}), "");
  for (const std::string name : {"", "*", "acme", "acme.internal", "x.app.acme.internal",
                                 "spiffe://prod", "spiffe://prod2/a", "spiffe://dev/prod/ns/acme/a",
                                 "https://prod/ns/acme/a", "prod/ns/acme/a", "/"}) {
    EXPECT_EQ(tenant_of({name}), "") << name;
  }
}

TEST_F(CertifiedTenantsTest, AreFoundByAKeyBeforeACertificate) {
  EXPECT_EQ(tenant_of({"app.acme.internal"}, {{"x-api-key", "key-b"}}), "beta");
  EXPECT_EQ(tenant_of({"app.acme.internal"}, {{"x-api-key", "for-the-backend"}}), "acme");
  EXPECT_EQ(tenant_of({}, {{"x-api-key", "key-b"}}), "beta");
}

TEST_F(CertifiedTenantsTest, AreFoundNoMoreOnceTheCertificateHasExpired) {
  EXPECT_EQ(tenant_of({"app.acme.internal"}, {}, -1), "");
  EXPECT_EQ(tenants_.state_of_keys(request_), CredentialState::unnamed);
  EXPECT_EQ(tenant_of({"app.acme.internal"}, {{"x-api-key", "key-b"}}, -1), "beta");
}

TEST_F(CertifiedTenantsTest, TellWhichNameItWas) {
  const RequestTenant& tenant =
      request_of({"other", "spiffe://prod/ns/acme/sa/app"}).info.identity.tenant;
  ASSERT_NE(tenant.key, nullptr);
  EXPECT_EQ(tenant.key->name, "spiffe://prod/ns/acme/sa/app");
  EXPECT_EQ(tenant.key->id, key_id_of(sha256("spiffe://prod/ns/acme/sa/app")));
  EXPECT_FALSE(tenant.has_model_limit());
}

TEST_F(CertifiedTenantsTest, AreNotFoundByAKeyThatIsTheHashOfACertificate) {
  EXPECT_EQ(tenant_of({"app.acme.internal"}), "acme");
  Request other;
  other.fields.add("x-api-key", hash_);
  tenants_.identify(other);
  EXPECT_EQ(other.info.identity.tenant.name, "");
}

TEST_F(TenantsTest, TakeTheAcceptedKeyAwayAndNoOther) {
  Request request;
  request.fields.add("authorization", "Bearer for-the-backend");
  request.fields.add("X-Api-Key", "key-b");
  request.fields.add("api-key", "key-b");
  tenants_.identify(request);
  tenants_.adopt(KeyTable::build({}, {}).table);  // it was revoked meanwhile

  tenants_.remove_credential(request);
  tenants_.remove_credential(request);

  ASSERT_EQ(request.fields.size(), 1u);
  EXPECT_EQ(request.fields.begin()->value(), "Bearer for-the-backend");
  EXPECT_EQ(request.info.identity.tenant.key->id, std::string(hash_of_key_b).substr(0, 8));
}

TEST_F(TenantsTest, OfAKeyThatIsSeenAgainAreTheSame) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(tenant_of({{"x-api-key", "key-a"}}), "acme");
    EXPECT_EQ(tenant_of({{"x-api-key", "key-b"}}), "beta");
    EXPECT_EQ(tenant_of({{"x-api-key", "unknown"}}), "");
  }
  // More keys than are kept.
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(tenant_of({{"x-api-key", "stray-" + std::to_string(i)}}), "");
  }
  EXPECT_EQ(tenant_of({{"x-api-key", "key-a"}}), "acme");
}

TEST_F(TenantsTest, AreNamedByTrustedProxies) {
  EXPECT_EQ(tenant_of({{"X-Tenant", "beta"}}, "inside"), "beta");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}, {"x-api-key", "key-a"}}, "inside"), "beta");
  EXPECT_EQ(tenant_of({{"x-tenant", "gamma"}, {"x-api-key", "key-a"}}, "inside"), "acme");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}}, "inside", "192.0.2.1"), "");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}}, "public"), "");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}, {"x-tenant", "acme"}}, "inside"), "");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}}, "inside", "10.1.2.3", "192.0.2.1"), "beta");
  EXPECT_EQ(tenant_of({{"x-tenant", "beta"}}, "inside", "192.0.2.1", "10.1.2.3"), "");
}

TEST_F(TenantsTest, HaveIndicesOfTheirOwnWhileTheyAreInUse) {
  tenant_of({{"x-api-key", "key-a"}});
  const std::uint32_t acme = index_;
  tenant_of({{"x-api-key", "key-b"}});
  const std::uint32_t beta = index_;

  const LabelIndex::View view = label_index_.view();

  ASSERT_EQ(view.tenants.size(), 4u);
  EXPECT_EQ(view.tenants[LabelIndex::other_tenant], "other");
  EXPECT_EQ(view.tenants[acme], "acme");
  EXPECT_EQ(view.tenants[beta], "beta");
}

#ifndef EVENKEEL_SANITIZED
// A key of this size would have to be allocated.
TEST_F(TenantsTest, KeepNoKey) {
  const std::string key(200, 'k');
  Request request;
  request.fields.add("x-api-key", key);
  const std::size_t before = allocations;

  tenants_.identify(request);

  EXPECT_EQ(allocations - before, 0u);
}
#endif

using RefusingChain = Chain;

TEST_F(RefusingChain, KnowsTheTenantOfARefusedRequest) {
  config.tenants = two_tenants().tenants;
  pool_set = *build_pools(config);
  MemoryPressureLevel pressure;
  pressure.set(MemoryPressure::critical);
  host.handler = std::make_shared<Plan>(
      std::make_shared<const Config>(config), pool_set,
      WorkerContext{loop, metrics_registry, 0, recorder, held_bodies, &pressure});
  auto client = connect();

  client->send("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: key-a\r\n\r\n");

  EXPECT_TRUE(client->read_message().starts_with("HTTP/1.1 503 "));
  const LabelIndex::View names = metrics_registry.label_index().view();
  const auto acme = std::find(names.tenants.begin(), names.tenants.end(), "acme");
  const TenantMetrics* const metrics = metrics_registry.worker_metrics(0).find_tenant(
      static_cast<std::uint32_t>(acme - names.tenants.begin()));
  ASSERT_NE(metrics, nullptr);
  EXPECT_TRUE(eventually(loop, [&] { return metrics->requests.value() == 1; }));
}

TEST(TenantLabels, AreLeftOutWithTheirPlan) {
  LabelIndex label_index;
  std::uint32_t first = 0;
  {
    LabelUses uses(label_index);
    first = uses.tenant("acme");
  }

  EXPECT_TRUE(label_index.view().tenants.empty());
  LabelUses uses(label_index);
  EXPECT_EQ(uses.tenant("acme"), first);  // its counters go on
}

}  // namespace
}  // namespace evenkeel
