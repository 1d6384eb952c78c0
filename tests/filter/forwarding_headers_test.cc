#include "evenkeel/filter/forwarding_headers.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "counted_allocations.h"

namespace evenkeel {
namespace {

/// Stands behind the filter and keeps what it was given.
class RecordingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    fields.clear();
    for (const Field& field : request.fields) {
      fields.append(field.name()).append(": ").append(field.value()).append("\n");
    }
    return Result<Response>(Response{});
  }
  std::string fields;
};

class ForwardingHeaders : public testing::Test {
 protected:
  /// The fields as the server gets them.
  std::string passed(std::initializer_list<std::pair<std::string_view, std::string_view>> fields,
                     bool trusted = false) {
    Request request{
        .authority = "api",
        .info = {.identity = {.listener = trusted ? "public" : "open", .client = "192.0.2.7"}}};
    for (const auto& [name, value] : fields) request.fields.add(name, value);
    auto answered = filter.handle(request, backend);
    EXPECT_TRUE(answered.ready());
    request_id = request.info.identity.request_id;
    client = request.info.identity.client;
    peer = request.info.identity.peer;
    return backend.fields;
  }

  std::string why;
  std::vector<ListenerConfig> listeners{
      {.name = "public",
       .trusted_proxies = {*parse_network("192.0.2.0/24", why), *parse_network("::1", why)},
       .tenant_header = "x-tenant"},
      {.name = "open"}};
  ForwardingHeadersFilter filter{1, listeners};
  RecordingHandler backend;
  std::string request_id;
  std::string client;
  std::string peer;
};

constexpr const char* ours =
    "x-forwarded-for: 192.0.2.7\nx-forwarded-proto: http\nx-forwarded-host: api\nvia: 1.1 "
    "evenkeel\n";

TEST_F(ForwardingHeaders, AddsForwardingHeaders) {
  EXPECT_EQ(passed({{"Accept", "a"}, {"x-request-id", "A-z_0.9"}}),
            std::string("Accept: a\nx-request-id: A-z_0.9\n") + ours);
  EXPECT_EQ(request_id, "A-z_0.9");
}

TEST_F(ForwardingHeaders, ReplacesHeadersOfAnUntrustedPeer) {
  EXPECT_EQ(passed({{"X-Forwarded-For", "10.0.0.1"},
                    {"X-Forwarded-Proto", "https"},
                    {"X-Forwarded-Host", "evil"},
                    {"Forwarded", "for=10.0.0.1"},
                    {"X-Forwarded-Client-Cert", "By=me"},
                    {"X-Evenkeel-Tier", "gold"},
                    {"X-EVENKEEL-x", "1"},
                    {"X-Evenkeel", "a"},
                    {"x-request-id", "a"}}),
            std::string("X-Evenkeel: a\nx-request-id: a\n") + ours);
}

TEST_F(ForwardingHeaders, ExtendsForwardedForOfATrustedProxy) {
  EXPECT_EQ(passed({{"X-Forwarded-For", "10.0.0.1"},
                    {"X-Forwarded-Proto", "https"},
                    {"X-Forwarded-Host", "shop"},
                    {"Forwarded", "for=10.0.0.1"},
                    {"X-Evenkeel-Tier", "gold"},
                    {"x-request-id", "a"}},
                   true),
            "X-Forwarded-Proto: https\nX-Forwarded-Host: shop\nForwarded: "
            "for=10.0.0.1\nX-Evenkeel-Tier: gold\n"
            "x-request-id: a\nx-forwarded-for: 10.0.0.1, 192.0.2.7\nvia: 1.1 evenkeel\n");
}

TEST_F(ForwardingHeaders, JoinsForwardedForFields) {
  const std::string fields = passed({{"X-Forwarded-For", "10.0.0.1, 10.0.0.2"},
                                     {"x-forwarded-for", ""},
                                     {"x-forwarded-for", "10.0.0.3"},
                                     {"x-request-id", "a"}},
                                    true);
  EXPECT_NE(fields.find("x-forwarded-for: 10.0.0.1, 10.0.0.2, 10.0.0.3, 192.0.2.7\n"),
            std::string::npos)
      << fields;
}

TEST_F(ForwardingHeaders, KeepsForwardedForOfAnyLength) {
  std::string way = "10.0.0.1";
  for (int i = 0; i < 500; ++i) way += ", 10.0.0.1";
  EXPECT_NE(
      passed({{"X-Forwarded-For", way}}, true).find("x-forwarded-for: " + way + ", 192.0.2.7\n"),
      std::string::npos);
}

TEST_F(ForwardingHeaders, GeneratesAnIdWhenNoneIsValid) {
  const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  const std::string long_id(129, 'a');
  std::set<std::string> made;
  const std::string_view insane[] = {"", "a b", "a\"b", "a\tb", "a/b", "\xc3\xa4", long_id};
  for (const auto bad : insane) {
    passed({{"x-request-id", bad}});
    EXPECT_TRUE(std::regex_match(request_id, uuid)) << request_id;
    made.insert(request_id);
  }
  passed({});
  made.insert(request_id);
  passed({{"x-request-id", "a"}, {"x-request-id", "b"}});
  made.insert(request_id);
  EXPECT_EQ(made.size(), 9u);

  passed({{"x-request-id", std::string(128, 'a')}});
  EXPECT_EQ(request_id, std::string(128, 'a'));
}

TEST_F(ForwardingHeaders, GeneratesIdsThatSortByTime) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  passed({});
  const auto stamp = std::stoll(request_id.substr(0, 8) + request_id.substr(9, 4), nullptr, 16);

  EXPECT_GE(stamp, now);
  EXPECT_LT(stamp, now + 60'000);
}

TEST_F(ForwardingHeaders, ForwardsTheClientCertificateAndNoForgedOne) {
  const auto certified = [&](bool trusted, std::string_view said) {
    Request request{.info = {.identity = {.listener = trusted ? "public" : "open",
                                          .client = "::1",
                                          .secure = true,
                                          .certificate_subject = "CN=a \"b\",O=c\\,d",
                                          .certificate_hash = "0123"}}};
    request.fields.add("X-Forwarded-Client-Cert", said);
    auto answered = filter.handle(request, backend);
    const auto begin = backend.fields.find("x-forwarded-client-cert: ");
    EXPECT_EQ(backend.fields.find("orwarded-", begin + 20), std::string::npos) << backend.fields;
    return backend.fields.substr(begin, backend.fields.find('\n', begin) - begin);
  };
  const std::string envoys = R"(Hash=0123;Subject="CN=a \"b\",O=c\\,d")";

  EXPECT_EQ(certified(false, "Hash=forged"), "x-forwarded-client-cert: " + envoys);
  EXPECT_EQ(certified(true, "Hash=first"), "x-forwarded-client-cert: Hash=first," + envoys);
  EXPECT_EQ(passed({{"x-forwarded-client-cert", "Hash=forged"}, {"x-request-id", "a"}})
                .find("client-cert"),
            std::string::npos);
}

TEST_F(ForwardingHeaders, TheClientIsTheOneThatATrustedProxyNames) {
  passed({{"X-Forwarded-For", "198.51.100.1, 203.0.113.9"}}, true);
  EXPECT_EQ(client, "203.0.113.9");
  EXPECT_EQ(peer, "192.0.2.7");

  passed({{"X-Forwarded-For", "203.0.113.9"}}, false);
  EXPECT_EQ(client, "192.0.2.7");
  EXPECT_EQ(peer, "");

  passed({}, true);
  EXPECT_EQ(client, "192.0.2.7");
  EXPECT_EQ(peer, "");
}

TEST_F(ForwardingHeaders, AClientThatIsNoTrustedProxyNamesNone) {
  Request request{.info = {.identity = {.listener = "public", .client = "198.51.100.1"}}};
  request.fields.add("X-Forwarded-For", "203.0.113.9");
  request.fields.add("X-Real-IP", "203.0.113.9");
  auto answered = filter.handle(request, backend);

  EXPECT_EQ(request.info.identity.client, "198.51.100.1");
  EXPECT_NE(backend.fields.find("x-forwarded-for: 198.51.100.1\n"), std::string::npos);
  EXPECT_EQ(backend.fields.find("203.0.113.9"), std::string::npos) << backend.fields;
}

TEST_F(ForwardingHeaders, OnlyTrustedProxiesNameTenants) {
  const auto tenants =
      [&](bool trusted,
          std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
        std::string lines = passed(fields, trusted);
        return lines.substr(0, lines.find("x-request-id: "));
      };

  EXPECT_EQ(tenants(true, {{"X-Tenant", "acme"}}), "X-Tenant: acme\n");
  EXPECT_EQ(tenants(true, {{"X-Tenant", "acme"}, {"x-tenant", "beta"}, {"a", "b"}}), "a: b\n");
  EXPECT_EQ(tenants(false, {{"X-Tenant", "acme"}, {"a", "b"}}), "a: b\n");
  EXPECT_EQ(tenants(false, {{"x-tenants", "acme"}}), "x-tenants: acme\n");
  EXPECT_EQ(tenants(false, {{"X_Tenant", "acme"}, {"a", "b"}}), "a: b\n");
  EXPECT_EQ(tenants(true, {{"x_tenant", "beta"}, {"X-Tenant", "acme"}}), "X-Tenant: acme\n");
}

#ifndef EVENKEEL_SANITIZED
TEST_F(ForwardingHeaders, AllocatesNothingForATrustedProxy) {
  class Silent final : public Handler {
    Task<Result<Response>> handle(Request&) override { return Result<Response>(Response{}); }
  } silent;
  const auto allocated = [&] {
    Request request{.authority = "api",
                    .info = {.identity = {.listener = "public", .client = "192.0.2.7"}}};
    request.fields.add("X-Forwarded-For", "2001:db8:1234:5678:9abc:def0:1234:5678");
    request.fields.add("X-Forwarded-For", "198.51.100.1, 203.0.113.9, 192.0.2.1");
    const std::size_t before = allocations;
    auto answered = filter.handle(request, silent);
    return allocations - before;
  };
  allocated();  // the first request fills the thread's free lists

  EXPECT_EQ(allocated(), 0u);
}
#endif

TEST_F(ForwardingHeaders, SetsForwardedProtoForTls) {
  Request request{.authority = "", .info = {.identity = {.client = "::1", .secure = true}}};
  auto answered = filter.handle(request, backend);

  EXPECT_NE(backend.fields.find("x-forwarded-for: ::1\nx-forwarded-proto: https\nvia: "),
            std::string::npos);
}

}  // namespace
}  // namespace evenkeel
