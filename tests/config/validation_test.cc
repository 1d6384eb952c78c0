#include "config/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "config/reachability.h"
#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string pool_a = "{name: a, backends: [127.0.0.1:1]}";
const std::string pool_b = "{name: b, backends: [127.0.0.1:2]}";

std::string two_pools(const std::string& routes) {
  return "pools: [" + pool_a + ", " + pool_b + "]\nroutes:\n" + routes;
}

std::string listeners(const std::string& list) {
  return "listeners: [" + list + "]\npools: [" + pool_a + "]\n";
}

TEST(ConfigValidation, RefusesTwoListenersOnOnePort) {
  EXPECT_THAT(
      problems_of(listeners("{name: x, address: 127.0.0.1:80}, {name: y, address: 127.0.0.1:80}")),
      ElementsAre("1:66 listeners[1].address: port 80 is taken by listener 'x' on "
                  "127.0.0.1:80; give one of them another port"));
}

TEST(ConfigValidation, AHostIsAWordOrWhatAHostFieldHolds) {
  const auto problems_with = [](const std::string& host) {
    return problems_of("pools: [{name: a, backends: [127.0.0.1:1], host: " + host + "}]");
  };
  for (const char* good : {"backend", "client", "api.example.com", "'api.example.com:8443'",
                           "'[::1]:80'", "10.0.0.1"}) {
    EXPECT_THAT(problems_with(good), IsEmpty()) << good;
  }
  EXPECT_THAT(problems_with("Backend"), ElementsAre(HasSubstr("did you mean 'backend'?")));
  for (const char* bad : {"https://a.test", "'a b'", "a/b", "'a:x'", "'$host'", "'a@b'", "'::1'"}) {
    EXPECT_THAT(problems_with(bad), ElementsAre(HasSubstr("pools[0].host: "))) << bad;
  }
}

std::string models_file(const std::string& keys_a, const std::string& keys_b,
                        const std::string& routes) {
  return "pools:\n  - {name: a, backends: [127.0.0.1:1], " + keys_a +
         "}\n  - {name: b, backends: [127.0.0.1:2], " + keys_b + "}\nroutes:\n" + routes;
}

TEST(ConfigValidation, WarnsOfARouteToAPoolWithoutItsModel) {
  EXPECT_THAT(warnings_of(models_file("models: [llama]", "models: [qwen]",
                                      "  - {match: {model: lama}, pool: a}\n"
                                      "  - {match: {model: [qwen, 'gpt-*']}, pool: b}\n")),
              ElementsAre("5:21 routes[0].match.model: 'lama' is none of the `models` of the pool "
                          "'a'; did you mean 'llama'?",
                          "6:28 routes[1].match.model[1]: 'gpt-*' is none of the `models` of the "
                          "pool 'b'; the pool has 'qwen': add it there, or route it to another "
                          "pool"));
  EXPECT_THAT(warnings_of(models_file("models: ['llama:latest']", "model: served",
                                      "  - {match: {model: llama}, pool: a}\n"
                                      "  - {match: {model: x}, pool: b}\n")),
              IsEmpty());
}

TEST(ConfigValidation, WarnsOfEachPartOfASplitThatLacksTheModel) {
  EXPECT_THAT(warnings_of(models_file("models: [m]", "models: [n]",
                                      "  - {match: {model: m}, split: {a: 9, b: 1}}\n")),
              ElementsAre(HasSubstr("'m' is none of the `models` of the pool 'b'")));
}

TEST(ConfigValidation, WarnsOfRoutesThatChangeWhatSessionsAreKeptBy) {
  EXPECT_THAT(
      warnings_of(models_file("affinity: {by: [cookie, 'header:X-Session']}",
                              "affinity: {by: ['header:x-session']}",
                              "  - {match: {path: /a}, pool: a, request_headers: {remove: "
                              "[cookie, x-other]}}\n"
                              "  - {pool: b, request_headers: {set: {x-session: s}, remove: "
                              "cookie}}\n")),
      ElementsAre(HasSubstr("routes[0].request_headers: changes 'cookie', by which the pool "
                            "'a' keeps sessions"),
                  HasSubstr("routes[1].request_headers: changes 'x-session', by which the "
                            "pool 'b' keeps sessions")));
}

TEST(ConfigValidation, WarnsOfModelsThatAreListedTwice) {
  EXPECT_THAT(warnings_of(models_file("models: [m, n, m]", "models: [m]",
                                      "  - {match: {model: [n, n]}, pool: a}\n"
                                      "  - {pool: b}\n")),
              ElementsAre(HasSubstr("pools[0].models[2]: 'm' is listed twice"),
                          HasSubstr("routes[0].match.model[1]: 'n' is listed twice")));
}

TEST(ConfigValidation, WarnsOfAModelThatAnEarlierRouteTakes) {
  EXPECT_THAT(warnings_of(models_file("weights: configured", "weights: configured",
                                      "  - {match: {model: 'llama-*'}, pool: a}\n"
                                      "  - {match: {model: [llama-70b, qwen]}, pool: b}\n")),
              ElementsAre(HasSubstr("routes[1].match.model[0]: 'llama-70b' is taken by routes[0] "
                                    "in line 5, which comes first")));
  EXPECT_THAT(warnings_of(models_file("weights: configured", "weights: configured",
                                      "  - {match: {model: 'llama-*'}, pool: a}\n"
                                      "  - {match: {model: llama-70b}, pool: b}\n")),
              ElementsAre(HasSubstr("routes[1]: never reached: routes[0] in line 5")));
  EXPECT_THAT(warnings_of(models_file("weights: configured", "weights: configured",
                                      "  - {match: {path: /a, model: 'llama-*'}, pool: a}\n"
                                      "  - {match: {model: llama-70b}, pool: b}\n")),
              IsEmpty());
}

TEST(ConfigValidation, WarnsOfAModelThatAnEarlierGlobTakes) {
  for (const char* const glob : {"'*'", "'*-70b'", "'ll*b'", "'llama-70b*'", "[x, 'llama-*']"}) {
    EXPECT_THAT(warnings_of(models_file("weights: configured", "weights: configured",
                                        std::string("  - {match: {model: ") + glob +
                                            "}, pool: a}\n"
                                            "  - {match: {model: llama-70b}, pool: b}\n")),
                ElementsAre(HasSubstr("routes[1]: never reached: routes[0] in line 5")))
        << glob;
  }
}

TEST(ConfigValidation, WarnsOfAFallbackWithoutTheModels) {
  EXPECT_THAT(
      warnings_of(models_file("models: [x, y, z], fallback: b", "models: [x]", "  - {pool: a}\n")),
      ElementsAre(HasSubstr("pools[0].fallback: the pool 'b' does not have 'y' and 'z', "
                            "whose requests it does not get")));
  EXPECT_THAT(
      warnings_of(models_file("fallback: b", "models: [x]", "  - {match: {model: y}, pool: a}\n")),
      ElementsAre(HasSubstr("does not have 'y'")));
  EXPECT_THAT(
      warnings_of(models_file("models: [x], fallback: b", "model: served", "  - {pool: a}\n")),
      IsEmpty());
}

std::string tenants(const std::string& list, const std::string& listener = "{name: x}") {
  return "listeners: [" + listener + "]\npools: [" + pool_a + "]\ntenants: [" + list + "]\n";
}

const std::string key_hash = std::string(60, 'a') + "BCD0";

TEST(ConfigValidation, TenantsHaveNamesAndKeysOfTheirOwn) {
  const std::string keys = "keys_sha256: [" + key_hash + "]";
  EXPECT_THAT(problems_of(tenants("{name: acme, " + keys + "}")), IsEmpty());
  EXPECT_THAT(problems_of(tenants("{name: acme, " + keys + "}, {name: beta, keys_sha256: [" +
                                  std::string(60, 'a') + "bcd0]}")),
              ElementsAre(HasSubstr("tenants[1].keys_sha256[0]: duplicate key '")));
  EXPECT_THAT(problems_of(tenants("{name: acme, " + keys + "}, {name: acme, keys_sha256: [" +
                                  std::string(64, 'b') + "]}")),
              ElementsAre(HasSubstr("tenants[1].name: duplicate tenant name 'acme'")));
  EXPECT_THAT(problems_of(tenants("{name: other, " + keys + "}")),
              ElementsAre(HasSubstr("tenants[0].name: 'other' are requests of no tenant")));
}

const std::string verifying =
    "{name: x, tls: {certificates: [{cert: a.pem, key: a.key}], client_ca: ca.pem}}";

TEST(ConfigValidation, ACertificateIsOneTenants) {
  EXPECT_THAT(problems_of(tenants(
                  "{name: acme, certificates: [spiffe://prod/*, App.Acme.Internal]}", verifying)),
              IsEmpty());
  EXPECT_THAT(problems_of(tenants("{name: acme, certificates: [a.internal, App.internal]}, "
                                  "{name: beta, certificates: app.Internal}",
                                  verifying)),
              ElementsAre(AllOf(HasSubstr("tenants[1].certificates"),
                                HasSubstr("'app.internal' are of tenant 'acme' already, and not of "
                                          "'beta'"))));
}

TEST(ConfigValidation, NamesOfCertificatesAreWholeOrEndInAnyPath) {
  for (const std::string name : {"'*.acme.internal'", "'spiffe://*'", "'spiffe://prod/*/sa'", "'*'",
                                 "''", "'a b'", "'acme/*'", "'spiffe://prod/ns*'", "'/CN=acme'"}) {
    EXPECT_THAT(problems_of(tenants("{name: acme, certificates: [" + name + "]}", verifying)),
                ElementsAre(HasSubstr("is no name of certificates")))
        << name;
  }
}

TEST(ConfigValidation, WarnsOfCertificatesThatNoListenerVerifies) {
  const std::string certified = "{name: acme, certificates: [app.internal]}";
  EXPECT_THAT(warnings_of(tenants(certified)),
              ElementsAre(HasSubstr("tenants[0].certificates: no listener verifies client")));
  EXPECT_THAT(warnings_of(tenants(certified, verifying)), IsEmpty());
}

TEST(ConfigValidation, SaltsOfTenantsAreTheirOwnAndNotShown) {
  const std::string salt = "0123456789abcdef";
  const auto with = [](const std::string& first, const std::string& second) {
    return tenants("{name: a, keys_sha256: [" + std::string(64, 'a') + "], cache_salt: " + first +
                   "}, {name: b, keys_sha256: [" + std::string(64, 'b') +
                   "], cache_salt: " + second + "}");
  };
  EXPECT_THAT(problems_of(with(salt, salt + "x")), IsEmpty());
  const auto same = problems_of(with("s" + salt, "s" + salt));
  EXPECT_THAT(same, ElementsAre(HasSubstr("tenants[1].cache_salt: is that of the tenant in")));
  EXPECT_THAT(same[0], Not(HasSubstr(salt)));
  const auto wrong = problems_of(with("short-salt", "'with a blank 0123456789'"));
  EXPECT_THAT(wrong, ElementsAre(HasSubstr("needs 16 to 256 letters"),
                                 HasSubstr("needs 16 to 256 letters")));
  EXPECT_THAT(wrong[0], Not(HasSubstr("short-salt")));
}

TEST(ConfigValidation, KeysOfTenantsAreHashedAndNotShown) {
  const auto problems =
      problems_of(tenants("{name: acme, keys_sha256: [sk-secret, " + key_hash.substr(1) + "]}"));

  EXPECT_THAT(problems, ElementsAre(HasSubstr("not a SHA-256 in hexadecimal"),
                                    HasSubstr("not a SHA-256 in hexadecimal")));
  EXPECT_THAT(problems[0], Not(HasSubstr("sk-secret")));
}

TEST(ConfigValidation, RulesOfRoutesAndModelsOfTenantsNeedAuth) {
  const std::string keys = "keys_sha256: [" + key_hash + "]";
  const std::string limited = tenants("{name: acme, models: 'llama-*', " + keys + "}");
  const std::string routed =
      tenants("{name: acme, " + keys + "}") + "routes: [{auth: optional, pool: a}]\n";

  EXPECT_THAT(problems_of(limited), ElementsAre(HasSubstr("tenants[0].models: nothing keeps")));
  EXPECT_THAT(problems_of(limited + "auth: {}\n"), IsEmpty());
  EXPECT_THAT(problems_of(routed), ElementsAre(HasSubstr("routes[0].auth: has no meaning without "
                                                         "`auth` in the file; add `auth: {}`")));
  EXPECT_THAT(problems_of(routed + "auth: {}\n"), IsEmpty());
}

TEST(ConfigValidation, AuthNeedsATenant) {
  EXPECT_THAT(problems_of("pools: [" + std::string(pool_a) + "]\nauth: {}\n"),
              ElementsAre(HasSubstr("auth: no request could have a key: there are no tenants")));
  EXPECT_THAT(warnings_of(tenants("{name: acme}") +
                          "auth: {jwt: [{issuer: i, audience: a, jwks: keys.json}]}\n"),
              IsEmpty());
  EXPECT_THAT(warnings_of(tenants("{name: acme}") + "auth: {keys: {file: keys.txt}}\n"), IsEmpty());
}

TEST(ConfigValidation, IssuersNameTenantsOfTheFile) {
  const auto named = [](const std::string& name) {
    return tenants("{name: acme}") +
           "auth: {jwt: [{issuer: i, audience: a, jwks: k, tenants: " + name + "}]}\n";
  };
  EXPECT_THAT(warnings_of(named("acme")), IsEmpty());
  EXPECT_THAT(problems_of(named("acne")),
              ElementsAre(HasSubstr("auth.jwt[0].tenants[0]: there is no tenant 'acne'")));
}

TEST(ConfigValidation, WarnsOfTenantsAndHeadersThatHaveNoEffect) {
  const std::string trusting = "{name: x, trusted_proxies: [10.0.0.0/8], tenant_header: X-Tenant}";
  EXPECT_THAT(problems_of(tenants("{name: acme}", trusting)), IsEmpty());
  EXPECT_THAT(problems_of(tenants("{name: acme}")), IsEmpty());
  EXPECT_THAT(warnings_of(tenants("{name: acme}")),
              ElementsAre(HasSubstr("tenants[0]: no request can be of this tenant")));
  EXPECT_THAT(problems_of(listeners(trusting)), IsEmpty());
  EXPECT_THAT(warnings_of(listeners(trusting)),
              ElementsAre(HasSubstr("listeners[0].tenant_header: there are no tenants")));
  EXPECT_THAT(problems_of(tenants("{name: acme}", "{name: x, tenant_header: x-tenant}")),
              ElementsAre(HasSubstr("'tenant_header' has no effect without 'trusted_proxies'")));
}

TEST(ConfigValidation, WildcardAddressConflictsWithEveryAddress) {
  const auto problems = [](const std::string& a, const std::string& b) {
    return problems_of(
        listeners("{name: x, address: \"" + a + "\"}, {name: y, address: \"" + b + "\"}"));
  };

  EXPECT_EQ(problems(":80", "127.0.0.1:80").size(), 1u);
  EXPECT_EQ(problems("127.0.0.1:80", "0.0.0.0:80").size(), 1u);
  EXPECT_EQ(problems("[::]:80", "127.0.0.1:80").size(), 1u);
  EXPECT_EQ(problems("[::]:80", "0.0.0.0:80").size(), 1u);
  EXPECT_EQ(problems("localhost:80", "127.0.0.1:80").size(), 1u);
  EXPECT_EQ(problems("[::ffff:0.0.0.0]:80", "127.0.0.1:80").size(), 1u);
  EXPECT_EQ(problems("Localhost.:80", "127.0.0.1:80").size(), 1u);
  EXPECT_EQ(problems("LB.test:80", "lb.test.:80").size(), 1u);
  EXPECT_THAT(problems("127.0.0.1:80", "127.0.0.2:80"), IsEmpty());
  EXPECT_THAT(problems("0.0.0.0:80", "[::1]:80"), IsEmpty());
  EXPECT_THAT(problems("127.0.0.1:0", "127.0.0.1:0"), IsEmpty());
}

TEST(ConfigValidation, RefusesAListenerOnTheAdminPort) {
  EXPECT_THAT(
      problems_of(listeners("{address: 0.0.0.0:9901}")),
      ElementsAre(HasSubstr("listeners[0].address: port 9901 is taken by the admin listener "
                            "on 127.0.0.1:9901")));
  EXPECT_THAT(problems_of("admin: {address: 127.0.0.1:8080}\npools: [" + pool_a + "]\n"),
              ElementsAre(HasSubstr("admin.address: port 8080 is taken by listener 'public'")));
}

TEST(ConfigValidation, RefusesDuplicateNamesAndBackends) {
  EXPECT_THAT(problems_of(listeners("{address: 127.0.0.1:1}, {address: 127.0.0.1:2}")),
              ElementsAre(HasSubstr("listeners[1].name: duplicate listener name 'public'")));
  EXPECT_THAT(problems_of("pools: [" + pool_a + ", " + pool_a + "]\nroutes: [{pool: a}]\n"),
              ElementsAre(HasSubstr("pools[1].name: duplicate pool name 'a'")));
  EXPECT_THAT(
      problems_of("pools:\n- name: a\n  backends: [h:1, {address: h:1, weight: 0}, http://h:1]\n"),
      ElementsAre(HasSubstr("backends[1].address: duplicate backend 'h:1', the first is in line 3"),
                  HasSubstr("weight: 0 is out of range"),
                  HasSubstr("backends[2]: duplicate backend 'h:1'")));
  for (const char* again : {"G.Test.:80", "http://G.test", "https://g.test.:80"}) {
    EXPECT_THAT(
        problems_of("pools: [{name: a, backends: ['g.test:80', '" + std::string(again) + "']}]\n"),
        ElementsAre(HasSubstr("duplicate backend 'g.test:80'")))
        << again;
  }
  EXPECT_THAT(problems_of("pools: [{name: a, backends: ['[::FFFF:10.0.0.1]:1', '10.0.0.1:1']}]\n"),
              ElementsAre(HasSubstr("duplicate backend '10.0.0.1:1'")));
}

TEST(ConfigValidation, RoutesHaveHostsInOneForm) {
  for (const char* again : {"api.test", "API.test.", "Api.Test"}) {
    EXPECT_THAT(warnings_of(two_pools("- {match: {host: api.test}, pool: a}\n- {match: {host: " +
                                      std::string(again) + "}, pool: b}\n")),
                ElementsAre(HasSubstr("routes[1]: never reached")))
        << again;
  }
  EXPECT_THAT(warnings_of(two_pools("- {match: {host: '*.Test.'}, pool: a}\n"
                                    "- {match: {host: api.test}, pool: b}\n")),
              ElementsAre(HasSubstr("routes[1]: never reached")));
  EXPECT_THAT(warnings_of(two_pools("- {match: {host: '[::1]'}, pool: a}\n"
                                    "- {match: {host: '0:0::1'}, pool: b}\n")),
              ElementsAre(HasSubstr("routes[1]: never reached")));
  EXPECT_THAT(problems_of(two_pools("- {match: {host: '.'}, pool: a}\n- {pool: b}\n")),
              ElementsAre(HasSubstr("not a host name")));
}

TEST(ConfigValidation, ReportsAnUnresolvableHostAsARunWould) {
  TestEnvironment held;
  held.unknown_hosts = {"gone", "lost"};

  const auto result = held.read(
      "listeners: [{address: gone:80}]\n"
      "pools:\n- name: a\n  backends: [gone:1, {address: lost:2}, here:3, 127.0.0.1:4]\n");

  EXPECT_THAT(
      lines_of(result.problems),
      ElementsAre("1:23 listeners[0].address: the host name 'gone' has no address: no such host"));
  EXPECT_THAT(
      lines_of(result.warnings),
      ElementsAre("4:14 pools[0].backends[0]: the host name 'gone' has no address: no such host; "
                  "it gets requests once its name has one",
                  "4:32 pools[0].backends[1].address: the host name 'lost' has no address: "
                  "no such host; it gets requests once its name has one"));
}

TEST(ConfigValidation, RequiresRoutesForSeveralPools) {
  EXPECT_THAT(problems_of("pools: [" + pool_a + ", " + pool_b + "]\n"),
              ElementsAre(HasSubstr("routes: missing, and there are 2 pools: which one answers a "
                                    "request?; add routes:")));
}

TEST(ConfigValidation, RefusesARouteToAnUnknownPool) {
  EXPECT_THAT(
      problems_of(two_pools("- {match: {path: /a}, pool: a}\n- {match: {path: /b}, pool: b}\n"
                            "- pool: nowhere\n")),
      ElementsAre("5:9 routes[2].pool: there is no pool 'nowhere'; the pools are a, b"));
  EXPECT_THAT(
      problems_of(two_pools("- {match: {path: /b}, pool: b}\n- split: {a: 1, elsewhere: 1}\n")),
      ElementsAre(HasSubstr("routes[1].split.elsewhere: there is no pool 'elsewhere'")));
  EXPECT_THAT(problems_of(two_pools("- {match: {path: /b}, split: {a: 1, b: 1}}\n"
                                    "- split: {version=v7: 1}\n")),
              ElementsAre(HasSubstr("there is no pool 'version=v7'; to split by labels, name the "
                                    "pool: 'pool: NAME' beside 'split'")));
  EXPECT_THAT(problems_of(two_pools("- {match: {path: /b}, split: {a: 1, b: 1}}\n- {name: x}\n")),
              ElementsAre(HasSubstr("routes[1]: has no target; add 'pool: NAME'")));
  EXPECT_THAT(
      problems_of(two_pools("- {match: {path: /b}, pool: b}\n- {pool: a, split: {b: 1}}\n")),
      ElementsAre(HasSubstr("routes[1].split.b: expected LABEL=VALUE, such as version=v7, found "
                            "'b'; beside 'pool', a split names backends of that pool by their "
                            "labels; to split over pools, remove 'pool'")));
}

TEST(ConfigValidation, TakesRoutesThatRespondAndNoPools) {
  const std::string soon =
      "routes: [{match: {path: /a}, respond: {}}, {respond: {status: 503, body: soon}}]\n";
  EXPECT_THAT(problems_of(soon), IsEmpty());
  const LoadResult loaded = read_config(soon, "f.yaml", {});
  for (const bool with_defaults : {false, true})
    EXPECT_EQ(read_config(print_config(loaded.config, with_defaults), "f.yaml", {}).config,
              loaded.config);
  EXPECT_THAT(problems_of("pools: []\n" + soon), IsEmpty());
  EXPECT_THAT(problems_of("pools: []\n"),
              ElementsAre(HasSubstr("pools: is empty, at least one is needed")));
  EXPECT_THAT(problems_of("routes: [{pool: a}]\n"),
              ElementsAre(HasSubstr("there is no pool 'a'; add it to 'pools'")));
  EXPECT_THAT(problems_of(two_pools("- {pool: a, respond: {}}\n- {pool: b, match: {path: /}}\n")),
              Contains(HasSubstr("routes[0].pool: no pool gets the requests of a route with "
                                 "'respond'; remove 'pool' or 'respond'")));
  EXPECT_THAT(problems_of("routes: [{respond: {status: 101}}]\n"),
              ElementsAre(HasSubstr("101 is out of range, expected 200 to 599")));
  EXPECT_THAT(problems_of("routes: [{respond: {status: 301}}]\n"),
              ElementsAre(HasSubstr("301 sends clients elsewhere")));
  EXPECT_THAT(problems_of("routes: [{respond: {status: 204, body: soon}}]\n"),
              ElementsAre(HasSubstr("204 has no body")));
  EXPECT_THAT(problems_of("routes: [{respond: {status: 204}}]\n"), IsEmpty());
  EXPECT_THAT(problems_of("routes: [{respond: {content_type: \"a\\r\\nb: c\"}}]\n"),
              ElementsAre(HasSubstr("is not the value of a header field")));
}

TEST(ConfigValidation, WarnsOfAnUnusedPool) {
  EXPECT_THAT(problems_of(two_pools("- pool: a\n")), IsEmpty());
  EXPECT_THAT(
      warnings_of(two_pools("- pool: a\n")),
      ElementsAre("1:52 pools[1].name: no route leads to the pool 'b'; add a route to it, or "
                  "remove it"));
}

TEST(ConfigValidation, CountsASuggestedPoolAsUsed) {
  EXPECT_THAT(
      problems_of("pools: [{name: llama, backends: [127.0.0.1:1]}]\nroutes: [{pool: lama}]\n"),
      ElementsAre("2:17 routes[0].pool: there is no pool 'lama'; did you mean 'llama'?"));
}

TEST(ConfigValidation, RefusesAllZeroWeights) {
  EXPECT_THAT(problems_of(two_pools("- split: {a: 0, b: 0}\n")),
              ElementsAre(HasSubstr("routes[0].split: all shares are 0")));
  EXPECT_THAT(problems_of(two_pools("- split: {a: 100, b: -1}\n")),
              ElementsAre(HasSubstr("routes[0].split.b: -1 is out of range, expected 0 to 10000")));
}

std::string versions(const std::string& split) {
  return "pools:\n- name: llama\n  backends:\n"
         "  - {address: h:1, labels: {version: v7, gpu: h100}}\n"
         "  - {address: h:2, labels: {version: v8}}\n"
         "routes: [{pool: llama, split: " +
         split + "}]\n";
}

TEST(ConfigValidation, RefusesAPartOfAPoolWithoutBackends) {
  EXPECT_THAT(problems_of(versions("{version=v7: 95, version=v8: 5}")), ElementsAre());
  EXPECT_THAT(problems_of(versions("{version=v7: 95, version=v9: 5}")),
              ElementsAre("6:60 routes[0].split.version=v9: no backend of the pool 'llama' has "
                          "version=v9; did you mean 'v7'?"));
  EXPECT_THAT(problems_of(versions("{version=v7: 95, version=next: 5}")),
              ElementsAre(HasSubstr("no backend of the pool 'llama' has version=next; their values "
                                    "of 'version' are v7, v8")));
  EXPECT_THAT(problems_of(versions("{version=v7: 95, zone=b: 5}")),
              ElementsAre(HasSubstr("no backend of the pool 'llama' has a label 'zone'; their "
                                    "labels are gpu, version")));
  EXPECT_THAT(problems_of(versions("{version=v7: 95, verson=v8: 5}")),
              ElementsAre(HasSubstr("has a label 'verson'; did you mean 'version'?")));
  EXPECT_THAT(problems_of(versions("{\"gpu=h100,version=v8\": 5}")),
              ElementsAre(HasSubstr("no backend of the pool 'llama' has all of "
                                    "gpu=h100,version=v8")));
  EXPECT_THAT(problems_of(versions("{version=v7: 0, version=v8: 0}")),
              ElementsAre(HasSubstr("routes[0].split: all shares are 0: no backend would get a "
                                    "request; give one of them a share above 0")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1]}]\n"
                          "routes: [{pool: a, split: {version=v7: 1}}]\n"),
              ElementsAre(HasSubstr("the backends of the pool 'a' have no labels; give backends "
                                    "'labels: {version: v7}'")));
}

TEST(ConfigValidation, WarnsOfAnUnreachableRoute) {
  EXPECT_THAT(problems_of(two_pools("- pool: a\n- {match: {path: /x}, pool: b}\n")), IsEmpty());
  EXPECT_THAT(
      warnings_of(two_pools("- pool: a\n- {match: {path: /x}, pool: b}\n")),
      ElementsAre("4:3 routes[1]: never reached: routes[0] in line 3 matches everything that this "
                  "does; the first match wins: put the narrower route first"));
}

TEST(ConfigValidation, ListsTheFirstOfVeryManyProblems) {
  std::string routes = "- pool: b\n";
  for (int i = 0; i < 1000; ++i) routes += "- {match: {path: /x}, pool: a}\n";

  const auto problems = warnings_of(two_pools(routes));

  ASSERT_EQ(problems.size(), 101u);
  EXPECT_THAT(problems.front(), HasSubstr("routes[1]: never reached: routes[0]"));
  EXPECT_THAT(problems.back(), HasSubstr("and 900 more"));
}

TEST(ConfigValidation, CheckingTenThousandRoutesTakesAFractionOfASecond) {
  RouteMatch match;
  Config config;
  config.pools.push_back({.name = "a"});
  for (int i = 0; i < 10'000; ++i) {
    match.path = "/tenant-" + std::to_string(i % 5000) + "/**";
    match.header = {{"x-model", std::to_string(i)}};
    config.routes.push_back({.match = match, .targets = {{.pool = "a"}}});
  }
  const Environment environment;
  config_file::ParseContext context{config_file::Report{"test.yaml"}, environment, {}, false};
  const auto began = std::chrono::steady_clock::now();

  config_file::validate_config(config, context);

  // Comparing all pairs took more than ten times as long.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_THAT(context.report.take(), IsEmpty());
}

TEST(ConfigValidation, CheckingThousandsOfModelsAndRoutesTakesAFractionOfASecond) {
  constexpr int count = 3'000;
  Config config;
  config.pools.push_back({.name = "a", .fallback = {.pool = "b"}});
  config.pools.push_back({.name = "b"});
  for (int i = 0; i < count; ++i) {
    const std::string model = "org/model-" + std::to_string(i) + "-instruct";
    for (PoolConfig& pool : config.pools) pool.models.push_back(model);
    // Some names are not the pool's.
    config.routes.push_back(
        {.match = {.path = "/v1/**", .model = {model + (i % 2 == 0 ? "" : "s")}},
         .targets = {{.pool = "a"}}});
  }
  const Environment environment;
  config_file::ParseContext context{config_file::Report{"test.yaml"}, environment, {}, false};
  const auto began = std::chrono::steady_clock::now();

  config_file::validate_config(config, context);

  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(ConfigValidation, ManyHeaderFieldsPerRouteTakeNoLonger) {
  Config config;
  config.pools.push_back({.name = "a"});
  for (int i = 0; i < 10'000; ++i) {
    RouteMatch match{.path = "/v1/**"};
    // The same fields in each, but for the last.
    for (char name = 'a'; name < 'm'; ++name) match.header[{name}] = "same";
    match.header["z"] = std::to_string(i);
    config.routes.push_back({.match = match, .targets = {{.pool = "a"}}});
  }
  config.routes.push_back({.match = {.path = "/v1/x", .header = config.routes[7].match.header},
                           .targets = {{.pool = "a"}}});
  const Environment environment;
  config_file::ParseContext context{config_file::Report{"test.yaml"}, environment, {}, false};
  const auto began = std::chrono::steady_clock::now();

  config_file::validate_config(config, context);

  // Comparing all pairs took more than ten times as long.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_THAT(context.report.take(), IsEmpty());
  const auto warnings = context.report.take_warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].message, HasSubstr("never reached: routes[7]"));
}

TEST(ConfigValidation, ThousandsOfWrongFallbacksAreCheckedInAFractionOfASecond) {
  Config config;
  for (int i = 0; i < 4000; ++i) {
    config.pools.push_back({.name = "pool-" + std::to_string(i)});
    config.pools.back().fallback.pool = "poll-" + std::to_string(i) + "-x";
  }
  const Environment environment;
  config_file::ParseContext context{config_file::Report{"test.yaml"}, environment, {}, false};
  const auto began = std::chrono::steady_clock::now();

  config_file::validate_config(config, context);

  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_EQ(context.report.take().size(), 101u);
}

/// Following each pool's chain to its end took 16 s.
TEST(ConfigValidation, AChainOfTwentyThousandFallbacksIsCheckedInAFractionOfASecond) {
  constexpr int count = 20'000;
  Config config;
  for (int i = 0; i < count; ++i) {
    config.pools.push_back({.name = "pool-" + std::to_string(i)});
    if (i + 1 < count) config.pools.back().fallback.pool = "pool-" + std::to_string(i + 1);
    config.routes.push_back({.match = {.path = "/" + std::to_string(i)},
                             .targets = {{.pool = config.pools.back().name}},
                             .slo = {.ttft = std::chrono::seconds(1)}});
  }
  config.pools.back().picker.name = "expected-time";
  const Environment environment;
  config_file::ParseContext context{config_file::Report{"test.yaml"}, environment, {}, false};
  const auto began = std::chrono::steady_clock::now();

  config_file::validate_config(config, context);
  config.pools.back().fallback.pool = config.pools.front().name;
  config_file::ParseContext cyclic{config_file::Report{"test.yaml"}, environment, {}, false};
  config_file::validate_config(config, cyclic);

  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_THAT(context.report.take(), IsEmpty());
  EXPECT_THAT(context.report.take_warnings(), IsEmpty());
  const auto problems = cyclic.report.take();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("pool-18 -> pool-19 -> ... -> pool-0"));
}

TEST(ConfigValidation, EachCycleOfFallbacksIsReportedOnce) {
  const auto pool = [](const std::string& name, const std::string& fallback) {
    return "{name: " + name + ", fallback: " + fallback + ", backends: [127.0.0.1:1]}";
  };
  EXPECT_THAT(problems_of("pools: [" + pool("in", "b") + ", " + pool("a", "a") + ", " +
                          pool("b", "c") + ", " + pool("c", "d") + ", " + pool("d", "b") +
                          "]\nroutes: [{split: {in: 1, a: 1}}]\n"),
              ElementsAre(HasSubstr("pools[1].fallback: the fallbacks form a cycle: a -> a"),
                          HasSubstr("pools[2].fallback: the fallbacks form a cycle: "
                                    "b -> c -> d -> b")));
}

TEST(ConfigValidation, RefusesBoundsThatAreCrossed) {
  const auto dns = [](const std::string& keys) {
    return problems_of("dns: {" + keys + "}\npools: [{name: a, backends: [h:1]}]\n");
  };
  EXPECT_THAT(dns("min_ttl: 5s, max_ttl: 5s"), IsEmpty());
  EXPECT_THAT(dns("min_ttl: 10s, max_ttl: 5s"),
              ElementsAre("1:6 dns: 'max_ttl' is below 'min_ttl'"));
  EXPECT_THAT(dns("min_ttl: 1h"), ElementsAre(HasSubstr("'max_ttl' is below 'min_ttl'; give both: "
                                                        "one of them has its default")));
}

TEST(ConfigValidation, IgnoresReachabilityOfAnInvalidMatch) {
  EXPECT_THAT(problems_of(two_pools("- {match: {path: /v1/**, modle: m}, pool: a}\n"
                                    "- {match: {path: /v1/**}, pool: b}\n")),
              ElementsAre(HasSubstr("routes[0].match.modle: unknown key")));
}

TEST(Covers, ComparesPathPatterns) {
  const auto covers = [](const std::string& a, const std::string& b) {
    return config_file::covers({.host = {}, .path = a, .header = {}, .method = {}},
                               {.host = {}, .path = b, .header = {}, .method = {}});
  };

  EXPECT_TRUE(covers("", "/x"));
  EXPECT_TRUE(covers("/**", ""));
  EXPECT_TRUE(covers("/v1/**", "/v1"));
  EXPECT_TRUE(covers("/v1/**", "/v1/chat/*"));
  EXPECT_TRUE(covers("/*/x", "/a/x"));
  EXPECT_TRUE(covers("/v1/**", "/v1/**"));
  EXPECT_FALSE(covers("/v1/*", "/v1/**"));
  EXPECT_FALSE(covers("/v1/**", "/v2"));
  EXPECT_FALSE(covers("/v1", "/v1/"));
  EXPECT_FALSE(covers("/v1/**", ""));
  EXPECT_FALSE(covers("/a", "/*"));
  EXPECT_FALSE(covers("/v1/*", "/v1/")) << "as requests are matched: '*' is no empty segment";
}

TEST(Covers, ServiceCoversItsMethods) {
  const auto covers = [](std::vector<std::string> a, std::vector<std::string> b) {
    return config_file::covers({.grpc = std::move(a)}, {.grpc = std::move(b)});
  };

  EXPECT_TRUE(covers({}, {"p.S"}));
  EXPECT_TRUE(covers({"p.S"}, {"p.S"}));
  EXPECT_TRUE(covers({"p.S", "q.T"}, {"q.T/M", "p.S/N"}));
  EXPECT_FALSE(covers({"p.S"}, {"p.S/M", "q.T"}));
  EXPECT_FALSE(covers({"p.S/M"}, {"p.S"}));
  EXPECT_FALSE(covers({"p.S"}, {"p.Sx/M"}));
  EXPECT_FALSE(covers({"p.S"}, {}));
}

TEST(Covers, RequiresEveryConditionToBeWider) {
  const RouteMatch narrow{
      .host = "api.example.com", .path = "/v1/**", .header = {{"x-a", "1"}}, .method = {"POST"}};

  EXPECT_TRUE(config_file::covers({}, narrow));
  EXPECT_TRUE(config_file::covers(
      {.host = "*.example.com", .path = "/v1/**", .method = {"GET", "POST"}}, narrow));
  EXPECT_FALSE(config_file::covers({.host = "*.example.org"}, narrow));
  EXPECT_FALSE(config_file::covers({.header = {{"x-a", "2"}}}, narrow));
  EXPECT_FALSE(config_file::covers({.header = {{"x-b", "1"}}}, narrow));
  EXPECT_FALSE(config_file::covers({.method = {"GET"}}, narrow));
  EXPECT_FALSE(config_file::covers(narrow, {}));
}

TEST(CoverIndex, FindsTheSameRouteAsComparingAllPairs) {
  std::mt19937 random(7);
  const auto one_of = [&](const std::vector<std::string>& words) {
    return words[random() % words.size()];
  };
  const auto some_of = [&](const std::vector<std::string>& words) {
    std::vector<std::string> some;
    for (const std::string& word : words) {
      if (random() % 4 == 0) some.push_back(word);
    }
    return some;
  };
  const auto random_match = [&] {
    RouteMatch match;
    match.host = one_of({"", "", "a.b.c", "*.b.c", "*.c", "c", "b.c"});
    for (std::size_t depth = random() % 4; depth > 0; --depth) {
      match.path += "/" + one_of({"a", "b", "*", "", "c"});
    }
    if (random() % 3 == 0) match.path += "/**";
    for (const std::string& name : some_of({"x", "y", "z"}))
      match.header[name] = one_of({"1", "2"});
    if (random() % 4 == 0) {
      for (char name = 'a'; name < 'k'; ++name) match.header[{name}] = one_of({"1", "1", "1", "2"});
    }
    match.method = some_of({"GET", "POST"});
    match.grpc = some_of({"p.S", "p.S/M", "q.T/N"});
    return match;
  };
  std::size_t hidden = 0;
  std::size_t reached = 0;
  for (int file = 0; file < 200; ++file) {
    const std::vector<RouteMatch> routes = [&] {
      std::vector<RouteMatch> all(30);
      std::ranges::generate(all, random_match);
      return all;
    }();
    config_file::CoverIndex index;
    for (std::size_t later = 0; later < routes.size(); ++later) {
      std::optional<std::size_t> compared;
      for (std::size_t i = 0; i < later && !compared; ++i) {
        if (config_file::covers(routes[i], routes[later])) compared = i;
      }

      const auto found = index.first_cover(routes[later]);

      ASSERT_EQ(found, compared);
      ++(found ? hidden : reached);
      if (!found) index.add(later, routes[later]);
    }
  }
  EXPECT_GT(hidden, 500u);
  EXPECT_GT(reached, 500u);
}

TEST(CoverIndex, ComparesGlobsThatBeginAlikeUpToALimit) {
  constexpr std::size_t count = 3000;  // of which each pair would be compared
  std::vector<RouteMatch> routes(count);
  config_file::CoverIndex index;
  for (std::size_t i = 0; i < count; ++i) {
    routes[i].model = {"*-" + std::to_string(i)};
    EXPECT_EQ(index.first_cover(routes[i]), std::nullopt);
    index.add(i, routes[i]);
  }

  EXPECT_EQ(index.first_cover(routes[count - 1]), std::nullopt);
}

TEST(ConfigValidation, AcceptsAPoolThatIsOnlyAFallback) {
  EXPECT_THAT(problems_of("pools: [{name: a, fallback: b, backends: [127.0.0.1:1]}, " + pool_b +
                          "]\nroutes: [{match: {path: /**}, pool: a}]\n"),
              IsEmpty());
}

TEST(ConfigValidation, RefusesAFallbackThatIsNoPool) {
  EXPECT_THAT(
      problems_of("pools: [{name: a, fallback: bb, backends: [127.0.0.1:1]}, " + pool_b +
                  "]\nroutes: [{match: {path: /**}, pool: a}]\n"),
      ElementsAre(HasSubstr("pools[0].fallback: there is no pool 'bb'; did you mean 'b'?")));
}

TEST(ConfigValidation, RefusesFallbacksThatFormACycle) {
  const auto problems = problems_of(
      "pools:\n"
      "- {name: a, fallback: b, backends: [127.0.0.1:1]}\n"
      "- {name: b, fallback: a, backends: [127.0.0.1:2]}\n"
      "- {name: c, fallback: a, backends: [127.0.0.1:3]}\n"
      "routes: [{match: {path: /**}, split: {a: 1, b: 1, c: 1}}]\n");
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr(
                  "pools[0].fallback: the fallbacks form a cycle: a -> b -> a; remove one")));
  EXPECT_THAT(problems_of("pools: [{name: a, fallback: a, backends: [127.0.0.1:1]}]\n"),
              ElementsAre(HasSubstr("the fallbacks form a cycle: a -> a")));
}

TEST(ConfigValidation, AShadowPickerStandsBesideExpectedTimeOnly) {
  const auto problems = [](const std::string& picker) {
    return problems_of("pools: [{name: a, backends: [127.0.0.1:1], picker: " + picker + "}]\n");
  };

  EXPECT_THAT(problems("{name: expected-time, shadow_picker: round-robin}"), IsEmpty());
  EXPECT_THAT(problems("{name: gpu, shadow_picker: round-robin}"),
              ElementsAre("1:64 pools[0].picker.shadow_picker: unknown key; only `expected-time` "
                          "has it"));
  EXPECT_THAT(problems("{name: expected-time, shadow_picker: expected-time}"),
              ElementsAre(HasSubstr("pools[0].picker.shadow_picker: expected-time cannot be "
                                    "compared: it learns from requests that it places")));
  EXPECT_THAT(problems("{name: expected-time, shadow_picker: gpu, explain_one_in: 0}"),
              ElementsAre(HasSubstr("is asked about no request: `explain_one_in` is 0")));
  EXPECT_THAT(problems("{name: expected-time, explain_one_in: 0}"), IsEmpty());
  EXPECT_THAT(problems("{name: expected-tme, shadow_picker: gpu}"),
              ElementsAre(HasSubstr("pools[0].picker.name: unknown picker 'expected-tme'")));
  EXPECT_THAT(problems("{name: expected-time, shadow_picker: fastest}"),
              ElementsAre(HasSubstr("pools[0].picker.shadow_picker: unknown picker 'fastest'")));
}

std::vector<std::string> warnings_of(const std::string& text) {
  const auto loaded = read(text);
  EXPECT_THAT(lines_of(loaded.problems), IsEmpty()) << text;
  return lines_of(loaded.warnings);
}

std::vector<std::string> pool_warnings(const std::string& keys) {
  return warnings_of("pools: [{name: a, " + keys + "}]\n");
}

TEST(ConfigValidation, APickerHasItsOwnSettingsOnly) {
  const auto problems = [](const std::string& picker) {
    return problems_of("pools: [{name: a, backends: [127.0.0.1:1], picker: " + picker + "}]\n");
  };
  const std::string place = "pools[0].picker.";

  EXPECT_THAT(problems("{name: least-connections, slo: {ttft: 2s}}"),
              ElementsAre("1:78 pools[0].picker.slo: unknown key; only `expected-time` has it"));
  EXPECT_THAT(problems("{name: prefix-affinity, header: x-user, load_factor: 2}"),
              ElementsAre(HasSubstr(place + "header: unknown key; only `consistent-hash` has it")));
  EXPECT_THAT(problems("{load_factor: 2, name: gpu, memory_guard: 0.9}"),
              ElementsAre(HasSubstr(place + "load_factor: unknown key; only `consistent-hash` or "
                                            "`prefix-affinity` has it")));
  EXPECT_THAT(
      problems("{name: expected-time, shadow_picker: {name: gpu, weights: observed}}"),
      ElementsAre(HasSubstr(place + "shadow_picker.weights: unknown key; only `weighted`")));

  EXPECT_THAT(problems("{memory_guard: 0.9}"),
              ElementsAre(HasSubstr(place + "name: missing key 'name'")));
  EXPECT_THAT(problems("{name: fastest, memory_guard: 0.9}"),
              ElementsAre(HasSubstr(place + "name: unknown picker 'fastest'")));
  EXPECT_THAT(problems("[gpu]"), ElementsAre(HasSubstr("expected a picker, or a mapping such as")));
}

TEST(ConfigValidation, DefaultsOfOtherPickersAreNotWarnedOf) {
  const auto config = read("pools: [{name: a, backends: [127.0.0.1:1]}]\n").config;

  EXPECT_THAT(warnings_of(print_config(config, true)), IsEmpty());
}

TEST(ConfigValidation, WarnsOfWeightsThatThePickerIgnores) {
  const std::string backends = "backends: [127.0.0.1:1, {address: 127.0.0.1:2, weight: 3}], ";

  EXPECT_THAT(pool_warnings(backends + "picker: round-robin"),
              ElementsAre("1:74 pools[0].backends[1].weight: has no effect with `picker: "
                          "round-robin`; take `picker: weighted` or `least-connections`, or remove "
                          "the weights"));
  EXPECT_THAT(pool_warnings(backends + "picker: expected-time"),
              ElementsAre(HasSubstr("weight: is only for requests that generate no text")));
  EXPECT_THAT(pool_warnings(backends + "picker: {name: expected-time, shadow_picker: weighted}"),
              IsEmpty());
  EXPECT_THAT(pool_warnings(backends + "picker: least-latency"), IsEmpty());
}

TEST(ConfigValidation, WarnsOfAQueueInWhichNoRequestWaits) {
  const std::string backend = "backends: [127.0.0.1:1], ";

  EXPECT_THAT(pool_warnings(backend + "limits: {queue: {size: 9}}"),
              ElementsAre("1:60 pools[0].limits.queue: has no effect: without `max_in_flight` no "
                          "request waits; add `max_in_flight`, how many requests a backend may "
                          "have, beside it"));
  EXPECT_THAT(pool_warnings(backend + "limits: {queue: {size: 0}}"), IsEmpty());
  EXPECT_THAT(pool_warnings(backend + "limits: {max_in_flight: 2, queue: {size: 9}}"), IsEmpty());
  EXPECT_THAT(pool_warnings(backend + "slow_start: 9s, limits: {queue: {size: 9}}"), IsEmpty());
  EXPECT_THAT(pool_warnings(backend + "picker: expected-time, limits: {queue: {size: 9}}"),
              IsEmpty());
}

TEST(ConfigValidation, WarnsOfStandbySettingsWithoutStandbyBackends) {
  EXPECT_THAT(pool_warnings("backends: [127.0.0.1:1], standby: {dwell: 1s}"),
              ElementsAre(HasSubstr("pools[0].standby: has no effect: no backend of the pool")));
  EXPECT_THAT(pool_warnings("backends: [127.0.0.1:1, {address: 127.0.0.1:2, standby: true}], "
                            "standby: {dwell: 1s}"),
              IsEmpty());
}

TEST(ConfigValidation, WarnsOfPromisesThatNoSchedulerKeeps) {
  const auto warnings = [](const std::string& first, const std::string& rest) {
    return warnings_of("pools:\n- {name: a, fallback: b, backends: [127.0.0.1:1]" + first +
                       "}\n- {name: b, backends: [127.0.0.1:2]}\n" + rest);
  };
  const std::string route = "routes: [{pool: a, slo: {ttft: 2s}}]\n";
  const std::string tenant = "routes: [{pool: a}]\ntenants: [{name: t, weight: 2, keys_sha256: [" +
                             std::string(64, 'a') + "]}]\n";

  EXPECT_THAT(warnings("", route),
              ElementsAre(HasSubstr("routes[0].slo: has no effect: no pool of the route has "
                                    "`picker: expected-time`")));
  EXPECT_THAT(warnings("", tenant), ElementsAre(HasSubstr("tenants[0].weight: has no effect")));
  EXPECT_THAT(warnings(", picker: expected-time", route), IsEmpty());
  EXPECT_THAT(warnings(", picker: expected-time", tenant), IsEmpty());
  EXPECT_THAT(warnings_of("pools:\n- {name: a, fallback: b, backends: [127.0.0.1:1]}\n"
                          "- {name: b, backends: [127.0.0.1:2], picker: expected-time}\n" +
                          route),
              IsEmpty())
      << "the fallback has a scheduler";
}

TEST(ConfigValidation, WarnsOfGrpcOverHttp1) {
  const auto warnings = [](const std::string& keys) {
    return warnings_of("pools: [{name: a, backends: [127.0.0.1:1]" + keys +
                       "}]\nroutes: [{match: {grpc: p.S}, pool: a}]\n");
  };

  EXPECT_THAT(warnings(""),
              ElementsAre("2:25 routes[0].match.grpc: gRPC needs HTTP/2, and the pool "
                          "'a' speaks HTTP/1.1 to its backends; write `protocol: "
                          "h2` in the pool"));
  EXPECT_THAT(warnings(", protocol: h2"), IsEmpty());
  EXPECT_THAT(warnings(", protocol: auto"), IsEmpty());
  EXPECT_THAT(warnings(", tls: {}"), IsEmpty());
}

TEST(ConfigValidation, RefusesDestructiveMetricsEndpoints) {
  const auto problems = [](const std::string& path) {
    return problems_of(
        "pools: [{name: a, backends: [127.0.0.1:1], engine: trtllm, metrics: {path: " + path +
        "}}]\n");
  };

  EXPECT_THAT(problems("/metrics"),
              ElementsAre(HasSubstr("pools[0].metrics.path: reading /metrics of trtllm")));
  EXPECT_THAT(problems("/prometheus/metrics"), IsEmpty());
}

TEST(ConfigValidation, RefusesUnsupportedModelChecks) {
  const auto problems = [](const std::string& pool) {
    return problems_of("pools: [{name: a, backends: [127.0.0.1:1], " + pool + "}]\n");
  };

  EXPECT_THAT(problems("engine: vllm, health: {model: required}"),
              ElementsAre(HasSubstr("pools[0].health.model: the pool has no models")));
  EXPECT_THAT(problems("models: [m], health: {check: tcp, model: required}"),
              ElementsAre(HasSubstr("this `check` does not look at models")));
  EXPECT_THAT(problems("models: [m], engine: mlserver, health: {model: generate}"),
              ElementsAre(HasSubstr("with mlserver, the request that generates a token")));
  EXPECT_THAT(problems("models: [m], engine: torchserve, health: {model: generate}"),
              ElementsAre(HasSubstr("with torchserve, the request that generates a token")));
  EXPECT_THAT(problems("models: [m], engine: triton, protocol: h2, health: {model: generate}"),
              ElementsAre(HasSubstr("tokens are generated over HTTP")));
  EXPECT_THAT(problems("models: [m], engine: triton, protocol: h2, health: {model: required}"),
              IsEmpty());
  EXPECT_THAT(problems("models: [m], engine: vllm, health: {model: generate}"), IsEmpty());
}

}  // namespace
}  // namespace evenkeel
