#include "evenkeel/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ImportFormat all_formats[] = {ImportFormat::nginx, ImportFormat::haproxy,
                                        ImportFormat::litellm};

std::filesystem::path samples() {
  return std::filesystem::path(EVENKEEL_SOURCE_DIR) / "tests/import/samples";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string sample(ImportFormat format) {
  const char* const names[] = {"nginx.conf", "haproxy.cfg", "litellm.yaml"};
  return text_of(samples() / names[static_cast<int>(format)]);
}

Config imported(ImportFormat format, std::string_view text) {
  const Import result = import_config(format, text);
  EXPECT_TRUE(result.config) << result.error.text;
  return result.config.value_or(Config{});
}

std::vector<std::string> problems_of(const Config& config) {
  std::vector<std::string> problems;
  for (const Problem& problem : read_config(print_config(config, false), "x", {}).problems) {
    problems.push_back(problem.path + ": " + problem.message);
  }
  return problems;
}

const PoolConfig& pool(const Config& config, std::string_view name) {
  static const PoolConfig none;
  const auto found = std::ranges::find(config.pools, name, &PoolConfig::name);
  EXPECT_NE(found, config.pools.end()) << name;
  return found == config.pools.end() ? none : *found;
}

std::vector<std::string> addresses(const PoolConfig& of) {
  std::vector<std::string> found;
  for (const BackendConfig& each : of.backends) found.push_back(to_string(each.address));
  return found;
}

// [clients] + host + path or ~regex + model + {rewrite} > pool or = status, in the order of the
// routes.
std::vector<std::string> routes(const Config& config) {
  std::vector<std::string> found;
  for (const RouteConfig& each : config.routes) {
    std::string text;
    for (const Network& client : each.match.client) text += '[' + client.text + ']';
    text += each.match.host + each.match.path;
    if (!each.match.path_regex.empty()) text += '~' + each.match.path_regex;
    for (const std::string& model : each.match.model) text += " " + model;
    if (each.rewrite) {
      const RewriteConfig& to = *each.rewrite;
      text += " {" + to.strip_prefix + '|' + to.prefix + '|' + to.regex + '|' + to.to + '}';
    }
    for (const RouteTarget& target : each.targets) text += " > " + target.pool;
    if (each.respond) text += " = " + std::to_string(each.respond->status);
    if (each.redirect)
      text += " -> " + std::to_string(each.redirect->status) + ' ' + each.redirect->to;
    found.push_back(text);
  }
  return found;
}

// The published configurations: "nginx-vllm-docs.conf" and the like.
std::vector<std::string> published() {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(samples())) {
    const std::string name = each.path().filename();
    if (name.starts_with("nginx-") || name.starts_with("litellm-")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

ImportFormat format_of(const std::string& published) {
  return published.starts_with("nginx") ? ImportFormat::nginx : ImportFormat::litellm;
}

class ImportPublished : public testing::TestWithParam<std::string> {
 protected:
  const Import result = import_config(format_of(GetParam()), text_of(samples() / GetParam()));
};

TEST_P(ImportPublished, BecomesWhatIsExpectedWithAllThatIsLeftOut) {
  ASSERT_TRUE(result.config) << result.error.text;
  std::string text;
  for (const ImportNote& note : result.notes) {
    text += "# ";
    if (note.line > 0) text += "line " + std::to_string(note.line) + ": ";
    text += (note.opens ? "NOT PROTECTED ANY MORE: " : "") + note.text + '\n';
  }
  text += print_config(*result.config, false);
  const auto expected = samples().parent_path() / "expected" /
                        std::filesystem::path(GetParam()).replace_extension("yaml");
  EXPECT_EQ(text, text_of(expected)) << "evenkeel import PROGRAM FILE | tail -n +2 > " << expected;
}

TEST_P(ImportPublished, PassesTheCheckAndShowsNoSecret) {
  ASSERT_TRUE(result.config) << result.error.text;
  EXPECT_THAT(problems_of(*result.config), IsEmpty());
  EXPECT_THAT(print_config(*result.config, false), testing::Not(HasSubstr("very-secret")));
  for (const ImportNote& note : result.notes)
    EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
}

INSTANTIATE_TEST_SUITE_P(Samples, ImportPublished, testing::ValuesIn(published()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace_if(name, [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

TEST(Import, SamplesPassTheCheckAndShowNoSecret) {
  for (const ImportFormat format : all_formats) {
    const Import result = import_config(format, sample(format));
    ASSERT_TRUE(result.config) << result.error.text;
    EXPECT_THAT(problems_of(*result.config), IsEmpty());
    EXPECT_THAT(print_config(*result.config, true), testing::Not(HasSubstr("very-secret")));
    for (const ImportNote& note : result.notes) {
      EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
    }
  }
}

TEST(ImportNginx, TakesServersLocationsAndUpstreams) {
  const Config config = imported(ImportFormat::nginx, sample(ImportFormat::nginx));

  ASSERT_EQ(config.listeners.size(), 1U);
  EXPECT_EQ(to_string(config.listeners[0].address), "[::]:443");
  EXPECT_EQ(config.listeners[0].tls->certificates.size(), 2U);
  EXPECT_EQ(config.listeners[0].limits.body_bytes, 64U << 20U);
  const PoolConfig& llama = pool(config, "llama");
  EXPECT_EQ(llama.picker.name, "least-connections");
  EXPECT_THAT(addresses(llama),
              ElementsAre("10.0.0.1:8000", "gpu2.example.com:8000", "10.0.0.3:8000"));
  EXPECT_EQ(llama.backends[0].weight, 2U);
  EXPECT_TRUE(llama.backends[2].standby);
  EXPECT_EQ(llama.timeouts.idle, std::chrono::minutes(10));
  EXPECT_EQ(llama.timeouts.connect, std::chrono::seconds(3));
  EXPECT_EQ(pool(config, "embeddings").picker.header, "x-session-id");
  EXPECT_THAT(pool(config, "sessions").affinity->by, ElementsAre("cookie"));
  EXPECT_EQ(pool(config, "10.0.3.1").protocol, BackendProtocol::http2);
}

TEST(ImportNginx, OrdersRoutesAsNginxChooses) {
  const Config config = imported(ImportFormat::nginx, R"(
    server { listen 80; server_name *.b.c; location / { proxy_pass http://h1:1; } }
    server { listen 80; server_name a.b.c; location / { proxy_pass http://h2:1; }
             location /v1 { proxy_pass http://h3:1; } location = /v1/x { proxy_pass http://h4:1; } }
  )");
  EXPECT_THAT(routes(config), ElementsAre("a.b.c/v1/x > h4", "a.b.c/v1/** > h3", "a.b.c > h2",
                                          "*.b.c > h1", " > h1"));
}

TEST(ImportNginx, NamesWhatItLeavesOutWithItsLine) {
  const Import result = import_config(ImportFormat::nginx, sample(ImportFormat::nginx));
  const auto left_out = [&](int line, const char* text) {
    EXPECT_THAT(result.notes, Contains(testing::AllOf(Field(&ImportNote::line, line),
                                                      Field(&ImportNote::text, HasSubstr(text)))));
  };
  left_out(4, "include /etc/nginx/modules-enabled/*.conf (not followed");
  left_out(13, "limit_req_zone");
  left_out(38, "whose requests reach no backend");
  left_out(45, "~^regex$");
  left_out(61, "proxy_set_header Authorization ...");
  left_out(67, "line-67 answers 501 in its place");
}

TEST(ImportNginx, RewritesPathsAsProxyPassDoes) {
  const auto kept = [](const std::string& location) {
    const std::string other =
        location.starts_with("/ ") ? "" : "location / { proxy_pass http://z; }";
    return routes(imported(ImportFormat::nginx,
                           "server { listen 80; location " + location + other + " }"))
        .front();
  };
  EXPECT_EQ(kept("/a/ { proxy_pass http://b/; }"), "/a/** {/a|||} > b");
  EXPECT_EQ(kept("/a/ { proxy_pass http://b/a/; }"), "/a/** > b");
  EXPECT_EQ(kept("/a/ { proxy_pass http://b/v1/; }"), "/a/** {|/v1||} > b");
  EXPECT_EQ(kept("/a { proxy_pass http://b/v1; }"), "/a/** {|/v1||} > b");
  EXPECT_EQ(kept("/a { proxy_pass http://b/; }"), "/a/** {/a|||} > b");
  EXPECT_EQ(kept("/ { proxy_pass http://b/v1/; }"), " {||^/|/v1/} > b");
  EXPECT_EQ(kept("= /a.b { proxy_pass http://b/v1; }"), "/a.b {||^/a\\.b$|/v1} > b");
  EXPECT_EQ(kept("/a/ { proxy_pass http://b/v1; }"), "/a/** = 501");
  EXPECT_EQ(kept("/a/ { proxy_pass http://b/?x=1; }"), "/a/** = 501");
  EXPECT_EQ(kept("/a/ { rewrite ^/a/(.*)$ /b/$1 break; proxy_pass http://b; }"),
            "/a/** {||^/a/(.*)$|/b/\\1} > b");
}

TEST(ImportNginx, FollowsVariablesThatAreTexts) {
  const auto kept = [](const std::string& location) {
    return routes(imported(ImportFormat::nginx, "server { listen 80; set $up b; location /a/ { " +
                                                    location +
                                                    " } location / { proxy_pass http://c; } }"))
        .front();
  };
  EXPECT_EQ(kept("proxy_pass http://$up:80;"), "/a/** > b");
  EXPECT_EQ(kept("proxy_pass http://${up}.svc:80$request_uri;"), "/a/** > b.svc");
  EXPECT_EQ(kept("set $up d; proxy_pass http://$up;"), "/a/** > d");
  EXPECT_EQ(kept("proxy_pass http://$up/x/;"), "/a/** = 501");
  EXPECT_EQ(kept("proxy_pass http://$upper;"), "/a/** = 501");
}

TEST(ImportNginx, TakesRegularExpressionsThatRe2Has) {
  const auto kept = [](const std::string& location) {
    return routes(imported(ImportFormat::nginx,
                           "server { listen 80; location " + location +
                               " { proxy_pass http://a; } location / { proxy_pass http://z; } }"))
        .front();
  };
  EXPECT_EQ(kept("~ ^/v1/(chat|embeddings)$"), "~/v1/(chat|embeddings) > a");
  EXPECT_EQ(kept("~* /chat/completions$"), "~(?i).*/chat/completions > a");
  EXPECT_EQ(kept("~ ^/a|b$"), "~.*(?:^/a|b$).* > a");
  EXPECT_EQ(kept("~ ^/v1/.*"), "/v1/** > a");
  EXPECT_EQ(kept("~ ^/v(?!2)"), " = 501");
}

TEST(ImportNginx, TriesNoRegularExpressionBelowAFinalPrefix) {
  const Config config = imported(ImportFormat::nginx, R"(server { listen 80;
    location / { proxy_pass http://a; }
    location ~ json$ { proxy_pass http://b; }
    location ^~ /private/ { deny all; proxy_pass http://c; } })");
  EXPECT_THAT(routes(config), ElementsAre("/private/** = 403", "~.*json > b", " > a"));
}

// As many requests as nginx lets pass at once, and no more.
TEST(ImportNginx, LimitsOfRequestsGrantTheirBurst) {
  struct Case {
    const char* rate;
    unsigned burst;
  };
  for (const auto& [rate, burst] :
       {Case{"10r/s", 20}, Case{"10r/s", 0}, Case{"10r/s", 9}, Case{"7r/s", 6}, Case{"7r/s", 8},
        Case{"30r/m", 10}, Case{"1r/m", 5}, Case{"60r/m", 20}, Case{"100r/s", 4000}}) {
    const Config config = imported(
        ImportFormat::nginx,
        "limit_req_zone $binary_remote_addr zone=a:1m rate=" + std::string(rate) +
            "; server { listen 80; location / { limit_req zone=a burst=" + std::to_string(burst) +
            "; proxy_pass http://a; } }");
    ASSERT_EQ(config.rate_limits.size(), 1U) << rate;
    const RateLimitConfig& limit = config.rate_limits[0];
    EXPECT_THAT(limit.by, ElementsAre("address"));
    const double seconds[] = {1, 60, 3600};
    const LimitRate& each = limit.requests[0];
    const double period = 1e9 * seconds[static_cast<int>(each.period)];
    const double cost = std::ceil(period / static_cast<double>(each.amount));
    EXPECT_EQ(std::floor(period * limit.burst / cost), burst + 1.0) << rate << " " << burst;
  }
}

TEST(ImportNginx, LimitsThatNotAllLocationsHaveAreLost) {
  const std::string zones =
      "limit_req_zone $http_x_key zone=a:1m rate=1r/s; "
      "limit_conn_zone $remote_addr zone=b:1m; "
      "limit_req_zone $limit zone=c:1m rate=1r/s; ";
  const auto lost = [&](const std::string& server) {
    const Import result =
        import_config(ImportFormat::nginx, zones + "server { listen 80; " + server + " }");
    std::vector<std::string> found;
    for (const RateLimitConfig& each : result.config->rate_limits)
      found.push_back(each.by[0] + ' ' + std::to_string(each.concurrent));
    for (const ImportNote& note : result.notes) {
      if (note.opens) found.push_back(note.text.substr(0, note.text.find(" (")));
    }
    return found;
  };
  EXPECT_THAT(lost("limit_req zone=a; limit_conn b 5; location / { proxy_pass http://a; }"),
              ElementsAre("address 5", "header:x-key 0"));
  EXPECT_THAT(lost("limit_req zone=a; location / { proxy_pass http://a; } "
                   "location = /up { return 200; }"),
              ElementsAre("header:x-key 0"));
  EXPECT_THAT(lost("location /x { limit_req zone=a; proxy_pass http://a; } "
                   "location / { proxy_pass http://a; }"),
              ElementsAre("left out: limit_req zone=a"));
  EXPECT_THAT(lost("limit_req zone=c; limit_req zone=d; location / { proxy_pass http://a; }"),
              ElementsAre("left out: limit_req zone=c", "left out: limit_req zone=d"));
  EXPECT_THAT(lost("location / { limit_req zone=a; auth_basic x; proxy_pass http://a; }"),
              IsEmpty());
}

TEST(ImportNginx, FieldsOfAnswersAndCorsBelongToRoutes) {
  const auto route = [](const std::string& rules) {
    return imported(ImportFormat::nginx,
                    "server { listen 80; location / { proxy_pass http://a; " + rules + " } }")
        .routes[0];
  };
  EXPECT_THAT(route("add_header X-A b; add_header X-B $host;").response_headers.add,
              ElementsAre(std::pair("x-a", "b")));
  EXPECT_THAT(route("proxy_hide_header Server;").response_headers.remove, ElementsAre("server"));
  EXPECT_THAT(route("proxy_set_header Authorization '';").request_headers.remove,
              ElementsAre("authorization"));
  const RouteConfig open = route(
      "add_header Access-Control-Allow-Origin *; if ($request_method = 'OPTIONS') { add_header "
      "Access-Control-Allow-Methods 'GET, POST'; add_header Access-Control-Max-Age 60; return 204; "
      "}");
  ASSERT_TRUE(open.cors);
  EXPECT_THAT(open.cors->origins, ElementsAre("*"));
  EXPECT_THAT(open.cors->methods, ElementsAre("GET", "POST"));
  EXPECT_EQ(open.cors->max_age, std::chrono::minutes(1));
  EXPECT_FALSE(route("add_header Access-Control-Allow-Origin $http_origin; "
                     "add_header Access-Control-Allow-Credentials true;")
                   .cors);
}

TEST(ImportNginx, RetriesAndFailuresBelongToPools) {
  const auto of = [](const std::string& rules, const std::string& servers) {
    return imported(ImportFormat::nginx, "upstream u { " + servers +
                                             " } server { listen 80; location / { proxy_pass "
                                             "http://u; " +
                                             rules + " } }")
        .pools[0];
  };
  const PoolConfig pool =
      of("proxy_next_upstream error timeout http_503 non_idempotent; proxy_next_upstream_tries 3;",
         "server a max_fails=2 fail_timeout=5s; server b max_fails=2 fail_timeout=5;");
  EXPECT_THAT(pool.retry.on, ElementsAre(RetryOn::reset, RetryOn::timeout, RetryOn::gateway_error));
  EXPECT_EQ(pool.retry.attempts, 3U);
  EXPECT_EQ(pool.outlier.consecutive, 2U);
  EXPECT_EQ(pool.outlier.ejection, std::chrono::seconds(5));
  EXPECT_EQ(of("proxy_next_upstream off;", "server a;").retry.attempts, 1U);
  EXPECT_THAT(of("proxy_next_upstream http_502;", "server a;").retry.on, IsEmpty());
  EXPECT_EQ(of("", "server a max_fails=2; server b;").outlier, OutlierConfig{});
}

// An address is as private as the file makes it: its routes do not reach another one.
TEST(ImportNginx, RefusesAddressesWithOtherRoutes) {
  const char* text = R"(
    server { listen 80; server_name llm.a.com; location /v1/ { proxy_pass http://api; } }
    server { listen 127.0.0.1:9000; location / { proxy_pass http://admin; } })";
  const Import both = import_config(ImportFormat::nginx, text);
  EXPECT_FALSE(both.config);
  EXPECT_EQ(both.error.line, 3);
  EXPECT_THAT(both.error.text, HasSubstr("server of line 3 (127.0.0.1:9000) has other routes than "
                                         "server of line 2 (0.0.0.0:80)"));
  EXPECT_THAT(both.error.text, HasSubstr("--listen ADDRESS"));

  const Import one = import_config(ImportFormat::nginx, text, "127.0.0.1:9000");
  ASSERT_TRUE(one.config) << one.error.text;
  EXPECT_EQ(to_string(one.config->listeners[0].address), "127.0.0.1:9000");
  EXPECT_THAT(routes(*one.config), ElementsAre(" > admin"));
  EXPECT_THAT(routes(*import_config(ImportFormat::nginx, text, "80").config),
              ElementsAre("/v1/** > api"));
  const Import none = import_config(ImportFormat::nginx, text, "81");
  EXPECT_THAT(none.error.text, HasSubstr("the file has 0.0.0.0:80; the file has 127.0.0.1:9000"));
}

TEST(ImportNginx, KeepsAPrivateAddressOfAPublicPortApart) {
  const Import result = import_config(ImportFormat::nginx, R"(
    server { listen 80; location /v1/ { proxy_pass http://api; } }
    server { listen 127.0.0.1:80; location / { proxy_pass http://admin; } })");
  EXPECT_FALSE(result.config);
}

TEST(ImportNginx, KeepsIpv4AndIpv6Apart) {
  const std::string text = R"(
    server { listen 80; location / { proxy_pass http://api; } }
    server { listen [::]:80; location / { proxy_pass http://admin; } })";
  EXPECT_FALSE(import_config(ImportFormat::nginx, text).config);
  const Import chosen = import_config(ImportFormat::nginx, text, "80");
  EXPECT_EQ(to_string(chosen.config->listeners[0].address), "0.0.0.0:80");
  const Import alone = import_config(
      ImportFormat::nginx, "server { listen [::]:80; location / { proxy_pass http://a; } }");
  EXPECT_THAT(alone.notes, Contains(Field(&ImportNote::opens, true)));
}

TEST(ImportNginx, ServesSeveralAddressesWithTheSameRoutes) {
  const Config config = imported(ImportFormat::nginx, R"(
    server { listen 80; location / { proxy_pass http://a; } }
    server { listen 8080; location / { proxy_pass http://a; } })");
  EXPECT_EQ(config.listeners.size(), 2U);
  EXPECT_THAT(routes(config), ElementsAre(" > a"));
}

TEST(ImportNginx, AnswersInPlaceOfWhatItLeavesOut) {
  const Config config = imported(ImportFormat::nginx, R"(
    server { listen 80;
      location / { proxy_pass http://a; }
      location /metrics/ { deny all; }
      location ~ ^/admin/ { return 403; }
      location ~ ^/(x|y)\.php$ { root /srv; }
      location ~ (?=x) { root /srv; }
      location /embed/ { proxy_pass http://b:9000/x; }
      location = /health { return 200 'ok'; }
      location /.git/ { internal; }
      location /old { return 301 https://b.com; }
    })");
  EXPECT_THAT(routes(config),
              ElementsAre("/health = 200", "/admin/** = 403", "~/(x|y)\\.php = 501", " = 501",
                          "/metrics/** = 403", "/embed/** = 501", "/.git/** = 403",
                          "/old/** -> 301 https://b.com/?", " > a"));
  EXPECT_EQ(config.routes[0].respond->body, "ok");
  const Config plain = imported(ImportFormat::nginx, R"(
    server { listen 80;
      location / { proxy_pass http://a; }
      location /metrics/ { deny all; }
      location /embed/ { proxy_pass http://b:9000/x; }
      location /.git/ { internal; }
      location /old { return 301 https://b.com; }
      location /v1 { proxy_pass http://a; location /v1/private/ { allow 10.0.0.0/8; deny 10.0.0.1;
                                                                  proxy_pass http://c; } }
    })");
  EXPECT_THAT(routes(plain), ElementsAre("/v1/private/** = 403", "/metrics/** = 403",
                                         "/embed/** = 501", "/.git/** = 403",
                                         "/old/** -> 301 https://b.com/?", "/v1/** > a", " > a"));
}

TEST(ImportNginx, ClosesWhatAccessRulesProtect) {
  const auto kept = [](const std::string& in_server, const std::string& in_location) {
    return routes(imported(ImportFormat::nginx, "server { listen 80; " + in_server +
                                                    " location / { proxy_pass http://a; " +
                                                    in_location + " } }"));
  };
  EXPECT_THAT(kept("", "if ($http_authorization != x) { return 401; }"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("", "allow 10.0.0.0/8; deny all;"), ElementsAre("[10.0.0.0/8] > a", " = 403"));
  EXPECT_THAT(kept("allow 10.0.0.0/8; allow ::1; deny all;", ""),
              ElementsAre("[10.0.0.0/8][::1] > a", " = 403"));
  EXPECT_THAT(kept("", "deny 10.0.0.1; allow all; deny all;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("satisfy any;", "allow 10.0.0.0/8; deny all;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("set_real_ip_from 10.0.0.1;", "allow 10.0.0.0/8; deny all;"),
              ElementsAre(" = 403"));
  EXPECT_THAT(kept("auth_basic x;", "allow 10.0.0.0/8; deny all;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("auth_basic x;", ""), ElementsAre(" = 403"));
  EXPECT_THAT(kept("deny all;", ""), ElementsAre(" = 403"));
  EXPECT_THAT(kept("auth_request /check;", ""), ElementsAre(" = 403"));
  EXPECT_THAT(kept("", "access_by_lua_block { ngx.exit(401) }"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("", "rewrite ^/x/(.*) /$1 break;"), ElementsAre(" {/x|||} > a"));
  EXPECT_THAT(kept("", "rewrite ^/x/(.*) /$1 last;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("", "rewrite ^/x/(.*) /$1?a=$host break;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("", "if ($request_method = OPTIONS) { return 204; }"), ElementsAre(" > a"));
  EXPECT_THAT(kept("", "if ($request_method = POST) { return 204; }"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("rewrite ^/x/(.*) /$1;", ""), ElementsAre("/x/** = 501", " > a"));
  EXPECT_THAT(kept("", "include snippets/internal.conf;"), ElementsAre(" = 403"));
  EXPECT_THAT(kept("include options-ssl.conf;", "include proxy_params;"), ElementsAre(" > a"));
  EXPECT_THAT(kept("auth_basic x;", "auth_basic off;"), ElementsAre(" > a"));
  EXPECT_THAT(kept("deny all;", "allow all;"), ElementsAre(" > a"));
  EXPECT_THAT(kept("", "if ($slow) { set $x 1; }"), ElementsAre(" > a"));
}

// auth of each route: "off", or "key" for the file's.
std::vector<std::string> keys_of_routes(const Import& result) {
  std::vector<std::string> found;
  for (const RouteConfig& each : result.config->routes) {
    const bool refuses = each.respond && each.respond->status == 403;
    found.emplace_back(refuses ? "403" : each.auth == AuthRule::off ? "off" : "key");
  }
  return found;
}

TEST(ImportNginx, KeysThatConditionsCompareAreThoseOfATenant) {
  const auto kept = [](const std::string& before, const std::string& in_location) {
    const Import result = import_config(
        ImportFormat::nginx, before + "server { listen 80; location /v1/ { proxy_pass http://a; " +
                                 in_location + " } location / { proxy_pass http://a; } }");
    std::vector<std::string> found = keys_of_routes(result);
    for (const TenantConfig& each : result.config->tenants)
      found.push_back(std::to_string(each.keys_sha256.size()));
    for (const ImportNote& note : result.notes)
      EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
    EXPECT_THAT(problems_of(*result.config), IsEmpty());
    return found;
  };
  const std::string map =
      "map $http_authorization $ok { default 0; \"Bearer a-very-secret\" 1; 'Bearer b' 1; } ";
  EXPECT_THAT(kept(map, "if ($ok = 0) { return 401; }"), ElementsAre("key", "off", "2"));
  EXPECT_THAT(kept(map, "if ($ok != 1) { return 403; }"), ElementsAre("key", "off", "2"));
  EXPECT_THAT(kept("", "if ($http_authorization != \"Bearer very-secret\") { return 401; }"),
              ElementsAre("key", "off", "1"));
  EXPECT_THAT(kept("", "if ($http_x_api_key != very-secret) { return 401 'no'; }"),
              ElementsAre("key", "off", "1"));
  EXPECT_THAT(kept("",
                   "set $k very-secret; if ($http_authorization != \"Bearer $k\") { return "
                   "401; }"),
              ElementsAre("key", "off", "1"));
  EXPECT_THAT(kept(map, "if ($ok = 1) { return 401; }"), ElementsAre("403", "key"));
  EXPECT_THAT(kept(map, "if ($ok = 0) { return 302 /in; }"), ElementsAre("403", "key"));
  EXPECT_THAT(kept("map $http_authorization $ok { default 0; include keys; } ",
                   "if ($ok = 0) { return 401; }"),
              ElementsAre("403", "key"));
  EXPECT_THAT(kept("map $http_authorization $ok { default 0; ~^Bearer 1; } ",
                   "if ($ok = 0) { return 401; }"),
              ElementsAre("403", "key"));
  EXPECT_THAT(kept("", "if ($http_authorization != $other) { return 401; }"),
              ElementsAre("403", "key"));
}

TEST(ImportNginx, LocationsWithOtherKeysStayClosed) {
  const Import result = import_config(ImportFormat::nginx, R"(server { listen 80;
    location /a/ { if ($http_x_api_key != a) { return 401; } proxy_pass http://a; }
    location /b/ { if ($http_x_api_key != b) { return 401; } proxy_pass http://b; }
    location = /up { return 200 ok; }
    location / { if ($http_x_api_key != a) { return 401; } deny 10.0.0.1; proxy_pass http://c; }
  })");
  EXPECT_THAT(routes(*result.config),
              ElementsAre("/up = 200", "/a/** > a", "/b/** = 403", " = 403"));
  EXPECT_THAT(keys_of_routes(result), ElementsAre("off", "key", "403", "403"));
}

// The rule of a server that closes one location closes them all.
TEST(ImportNginx, RulesOfAServerHoldForAllItsLocations) {
  for (const std::string rule :
       {"deny 10.0.0.1; allow all;", "auth_basic x;", "satisfy any; allow 10.0.0.1; deny all;",
        "if ($http_x_y = z) { return 403; }"}) {
    const Config config = imported(
        ImportFormat::nginx, "server { listen 80; " + rule +
                                 " location /a/ { proxy_pass http://a; } location /b/ { "
                                 "proxy_pass http://b; } location / { proxy_pass http://c; } }");
    EXPECT_THAT(routes(config), ElementsAre("/a/** = 403", "/b/** = 403", " = 403")) << rule;
  }
}

// What a server does not take is not taken by the server of other hosts.
TEST(ImportNginx, KeepsRequestsOfAHostAtItsServer) {
  const Config config = imported(ImportFormat::nginx, R"(
    server { listen 80; location / { proxy_pass http://admin; } }
    server { listen 80; server_name a.com; location /v1/ { proxy_pass http://api; } }
    server { listen 80; server_name b.com; root /srv; }
    server { listen 80; location / { proxy_pass http://other; } })");
  EXPECT_THAT(routes(config),
              ElementsAre("a.com/v1/** > api", "a.com = 404", "b.com = 404", " > admin"));
  const Config hidden = imported(ImportFormat::nginx, R"(
    server { listen 80; server_name a.com; location / { proxy_pass http://a; } }
    server { listen 80; server_name ~^secret; return 403; })");
  EXPECT_THAT(routes(hidden), ElementsAre("a.com > a"));
  const Config refused = imported(ImportFormat::nginx, R"(
    server { listen 80 default_server; return 444; }
    server { listen 80; server_name a.com; location / { proxy_pass http://a; } })");
  EXPECT_THAT(routes(refused), ElementsAre("a.com > a", " = 403"));
}

TEST(ImportNginx, PoolsWithOtherSettingsAreOthers) {
  const Config config = imported(ImportFormat::nginx, R"(
    upstream v { server 10.0.0.1:8000; }
    server { listen 80; location = /health { proxy_pass http://v; proxy_read_timeout 2s; }
             location / { proxy_pass http://v; keepalive_timeout 0; } })");
  EXPECT_THAT(routes(config), ElementsAre("/health > v", " > v-2"));
  EXPECT_EQ(pool(config, "v").timeouts.idle, std::chrono::seconds(2));
  EXPECT_EQ(pool(config, "v-2").timeouts.idle, PoolTimeouts{}.idle);
}

TEST(ImportNginx, ZeroTimesKeepTheDefault) {
  const Config config =
      imported(ImportFormat::nginx,
               "server { listen 80; keepalive_timeout 0; location / { proxy_pass http://v; } }");
  EXPECT_EQ(config.listeners[0].timeouts.idle, ListenerTimeouts{}.idle);
}

TEST(ImportNginx, ZeroTimesOfBackendsKeepTheDefaultAndAreNotedOnce) {
  const Import result = import_config(ImportFormat::nginx, R"(
    proxy_read_timeout 0;
    server { listen 80;
             location / { proxy_pass http://v; proxy_connect_timeout 0s; }
             location /b { proxy_pass http://w; } })");
  ASSERT_TRUE(result.config);
  EXPECT_EQ(pool(*result.config, "v").timeouts.idle, PoolTimeouts{}.idle);
  EXPECT_EQ(pool(*result.config, "v").timeouts.connect, PoolTimeouts{}.connect);
  std::vector<std::string> notes;
  for (const ImportNote& note : result.notes) {
    if (note.text.find("_timeout") != std::string::npos) notes.push_back(note.text);
  }
  EXPECT_THAT(notes,
              testing::UnorderedElementsAre(
                  "left out: proxy_read_timeout ... (0 cannot be said: the default stays)",
                  "left out: proxy_connect_timeout ... (0 cannot be said: the default stays)"));
}

TEST(ImportNginx, AFormatOfNginxItselfIsKept) {
  const auto format = [](const std::string& log) {
    return imported(ImportFormat::nginx, "server { listen 80; access_log " + log +
                                             "; location / { proxy_pass http://a; } }")
        .access_log.format;
  };
  EXPECT_EQ(format("/a.log"), "combined");
  EXPECT_EQ(format("/a.log combined"), "combined");
  EXPECT_EQ(format("/a.log main"), "json");
}

TEST(ImportNginx, OneServerDoesNotSilenceTheLogOfAll) {
  const auto log = [](const std::string& first, const std::string& second) {
    return imported(ImportFormat::nginx, "server { listen 80; server_name a; access_log " + first +
                                             "; location / { proxy_pass http://a; } } "
                                             "server { listen 80; server_name b; access_log " +
                                             second + "; location / { proxy_pass http://a; } }")
        .access_log.path;
  };
  EXPECT_EQ(log("/a.log", "off"), "/a.log");
  EXPECT_EQ(log("off", "off"), "off");
  EXPECT_EQ(log("syslog:server=10.0.0.1", "/a.log"), "/a.log");
}

TEST(ImportNginx, ALocalSyslogIsKept) {
  const auto log = [](const std::string& path) {
    return imported(ImportFormat::nginx, "server { listen 80; access_log " + path +
                                             "; location / { proxy_pass http://a; } }")
        .access_log.path;
  };
  EXPECT_EQ(log("syslog:server=unix:/dev/log"), "syslog");
  EXPECT_EQ(log("syslog:server=unix:/dev/log,facility=local7,tag=nginx main"), "syslog");
  EXPECT_EQ(log("syslog:server=unix:/run/other.sock,nohostname"), "syslog:/run/other.sock");
  EXPECT_EQ(log("syslog:server=unix:relative"), AccessLogConfig{}.path);
  EXPECT_EQ(log("syslog:server=192.168.1.1:12345"), AccessLogConfig{}.path);
}

TEST(ImportNginx, ClientCertificatesStayRequired) {
  const Config config = imported(ImportFormat::nginx, R"(
    ssl_certificate a; ssl_certificate_key b; ssl_client_certificate ca;
    server { listen 443 ssl; server_name a; ssl_verify_client on;
             location / { proxy_pass http://a; } }
    server { listen 443 ssl; server_name b; ssl_verify_client optional;
             location / { proxy_pass http://a; } })");
  EXPECT_EQ(config.listeners[0].tls->client_auth, ClientAuth::require);
  EXPECT_FALSE(import_config(ImportFormat::nginx,
                             "server { listen 443 ssl; location / { proxy_pass http://a; } }")
                   .config);
}

TEST(ImportNginx, ReadsQuotesEscapesVariablesAndLua) {
  const Config config = imported(ImportFormat::nginx, R"(
    # a { comment
    server { listen 8080; set $x "a;b{"; set $y ${z}w; content_by_lua_block { if x { } }
      log_by_lua_block { ngx.say("}", '\'}') -- } it's
        x = [[ } ]] }
      location "/v1/" { proxy_pass 'http://gpu:8000'; } }
  )");
  EXPECT_THAT(routes(config), ElementsAre("/v1/** > gpu"));
}

TEST(ImportNginx, SyntaxErrorsHaveTheirLine) {
  const auto error = [](const char* text) {
    const Import result = import_config(ImportFormat::nginx, text);
    EXPECT_FALSE(result.config);
    return std::to_string(result.error.line) + ": " + result.error.text;
  };
  EXPECT_EQ(error("http {\n server {\n"), "2: a '{' without its '}'");
  EXPECT_EQ(error("a b;\n}"), "2: a '}' without its '{'");
  EXPECT_EQ(error("a b;\nlisten 80"), "2: 'listen' lacks its ';'");
  EXPECT_EQ(error("a\n 'b"), "2: a quoted text that never ends");
  EXPECT_THAT(error("events {}"), HasSubstr("proxy_pass"));
  EXPECT_THAT(error(std::string(100, 'a').append(40, '{').c_str()), HasSubstr("a block without"));
}

TEST(ImportHaproxy, TakesFrontendsBackendsAndConditions) {
  const Config config = imported(ImportFormat::haproxy, sample(ImportFormat::haproxy));

  EXPECT_EQ(config.workers, 4U);
  ASSERT_EQ(config.listeners.size(), 2U);
  EXPECT_EQ(config.listeners[1].tls->certificates[0].cert, "/etc/ssl/private/site.pem");
  EXPECT_THAT(routes(config), ElementsAre("/admin/** = 403", "api.example.com/v1/** > chat",
                                          "api.example.org/v1/** > chat", "/v1/embeddings > embed",
                                          "/embed/** > embed", "/old/** = 501", " > chat"));
  EXPECT_THAT(config.routes[3].match.method, ElementsAre("POST"));
  const PoolConfig& chat = pool(config, "chat");
  EXPECT_EQ(chat.picker.name, "least-connections");
  EXPECT_EQ(chat.health.path, "/health");
  EXPECT_EQ(chat.limits.max_in_flight, 32U);
  EXPECT_EQ(chat.timeouts.idle, std::chrono::minutes(10));
  EXPECT_EQ(pool(config, "embed").picker.header, "x-session-id");
  EXPECT_FALSE(pool(config, "embed").tls->verify);
  EXPECT_TRUE(pool(config, "embed").backends[0].address.secure);
}

TEST(ImportHaproxy, LeavesOutWhatRoutesCannotSay) {
  const Import result = import_config(ImportFormat::haproxy, sample(ImportFormat::haproxy));
  const auto left_out = [&](int line, const char* text) {
    EXPECT_THAT(result.notes, Contains(testing::AllOf(Field(&ImportNote::line, line),
                                                      Field(&ImportNote::text, HasSubstr(text)))));
  };
  left_out(23, "hdr_sub(user-agent)");
  left_out(29, "routes cannot say this condition");
  left_out(48, "backend blocked");
  left_out(51, "listen stats");
  left_out(56, "mode tcp");
}

TEST(ImportHaproxy, GoesRoundWhereTheFileDoes) {
  const Config config = imported(ImportFormat::haproxy, R"(
defaults
  mode http
listen llm
  bind :8080
  balance roundrobin
  server a 10.0.0.1:1 weight 3
  server b 10.0.0.2:1
)");
  EXPECT_EQ(pool(config, "llm").picker.name, "weighted");
  EXPECT_THAT(routes(config), ElementsAre(" > llm"));
}

// A file with one frontend `f` and its backends `a` and `b`.
std::string haproxy(const std::string& frontend, const std::string& of_a = "") {
  return "defaults\n mode http\nfrontend f\n bind :80\n bind :443 ssl crt /x.pem\n" + frontend +
         "backend a\n server s 10.0.0.1:1\n" + of_a + "backend b\n server s 10.0.0.2:1\n";
}

TEST(ImportHaproxy, RefusesFrontendsWithOtherRoutes) {
  const std::string text =
      haproxy(" default_backend a\n") + "frontend g\n bind 127.0.0.1:9000\n default_backend b\n";
  const Import both = import_config(ImportFormat::haproxy, text);
  EXPECT_FALSE(both.config);
  EXPECT_THAT(both.error.text, HasSubstr("frontend g (127.0.0.1:9000) has other routes than "
                                         "frontend f (0.0.0.0:80)"));
  const Import one = import_config(ImportFormat::haproxy, text, "127.0.0.1:9000");
  ASSERT_TRUE(one.config) << one.error.text;
  EXPECT_THAT(routes(*one.config), ElementsAre(" > b"));
  EXPECT_EQ(one.config->listeners.size(), 1U);
}

TEST(ImportHaproxy, AnswersWhatRulesRefuse) {
  const auto kept = [](const std::string& rule, const std::string& of_a = "") {
    return routes(
        imported(ImportFormat::haproxy, haproxy(' ' + rule +
                                                    "\n use_backend b if { path_beg /b/ }\n"
                                                    " default_backend a\n",
                                                of_a)));
  };
  EXPECT_THAT(kept("http-request deny if { path_beg /x/ } !{ src 10.0.0.0/8 }"),
              ElementsAre("/x/** = 403", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request deny if { hdr(host),map_str(/x) x }"),
              ElementsAre(" = 403", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request deny if { hdr(host),lower x.com }"),
              ElementsAre("x.com = 403", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request deny deny_status 404 if { path /x }"),
              ElementsAre("/x = 404", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request auth unless { src 10.0.0.0/8 }"),
              ElementsAre(" = 403", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request set-path /x%[path]"), ElementsAre(" = 501", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request return status 200 string ok if { path /x }"),
              ElementsAre("/x = 200", "/b/** > b", " > a"));
  EXPECT_THAT(kept("http-request deny deny_status 429 if { sc_http_req_rate(0) gt 9 }"),
              ElementsAre("/b/** > b", " > a"));
  EXPECT_THAT(kept("stats uri /stats"), ElementsAre("/stats/** = 501", "/b/** > b", " > a"));
  EXPECT_THAT(kept("monitor-uri /up"), ElementsAre("/up = 200", "/b/** > b", " > a"));
  EXPECT_THAT(kept("", " http-request deny if { path_beg /x/ }\n"),
              ElementsAre("/b/** > b", "/x/** = 403", " > a"));
  EXPECT_THAT(kept("use_backend b if { path_beg /y/ } { src 10.0.0.0/8 }"),
              ElementsAre("/y/** = 501", "/b/** > b", " > a"));
  EXPECT_THAT(kept("use_backend gone if { path_beg /y/ }"),
              ElementsAre("/y/** = 501", "/b/** > b", " > a"));
}

TEST(ImportNginx, RedirectsWhereItsUrlsCanBeSaid) {
  const auto kept = [](const std::string& location) {
    return routes(imported(ImportFormat::nginx, "server { listen 80; " + location +
                                                    " location / { proxy_pass http://a; } }"))
        .front();
  };
  EXPECT_EQ(kept("location /old/ { return 301 https://b.test$request_uri; }"),
            "/old/** -> 301 https://b.test/old/**");
  EXPECT_EQ(kept("location /old/ { return 308 https://$host$request_uri; }"),
            "/old/** -> 308 https://$host/old/**");
  EXPECT_EQ(kept("location = /old { return 302 /new; }"), "/old -> 302 /new?");
  EXPECT_EQ(kept("location = /old { return https://b.test/new$is_args$args; }"),
            "/old -> 302 https://b.test/new");
  EXPECT_EQ(kept("location /old/ { return 301 $scheme://b.test/; }"), "/old/** = 501");
  EXPECT_EQ(kept("location /old/ { return 301 https://b.test/$1; }"), "/old/** = 501");
}

TEST(ImportHaproxy, RedirectsWhereItsUrlsCanBeSaid) {
  const auto kept = [](const std::string& rule) {
    return routes(imported(ImportFormat::haproxy, haproxy(' ' + rule + "\n default_backend a\n")))
        .front();
  };
  EXPECT_EQ(kept("http-request redirect location https://b.test/x code 301 if { path /old }"),
            "/old -> 301 https://b.test/x?");
  EXPECT_EQ(kept("redirect location https://b.test/x code 301 keep-query if { path /old }"),
            "/old -> 301 https://b.test/x");
  EXPECT_EQ(kept("redirect prefix https://b.test if { path_beg /old/ }"),
            "/old/** -> 302 https://b.test/old/**");
  EXPECT_EQ(kept("http-request redirect location /%[path] if { path /old }"), "/old = 501");
}

TEST(ImportHaproxy, RedirectedAddressesAreNotServed) {
  const Config config = imported(
      ImportFormat::haproxy,
      haproxy(" http-request redirect scheme https unless { ssl_fc }\n default_backend a\n"));
  ASSERT_EQ(config.listeners.size(), 1U);
  EXPECT_EQ(config.listeners[0].address.port, 443);
  EXPECT_THAT(routes(config), ElementsAre(" > a"));
}

TEST(ImportHaproxy, ServersKeepTheTlsAndTheRestOfTheirDefaults) {
  const Config config = imported(ImportFormat::haproxy, R"(
defaults web
  mode http
  timeout server 0
  default_backend a
defaults tcp
  mode tcp
frontend f from web
  bind :::443 v4v6
backend a from web
  default-server ssl verify none
  server s 10.0.0.1:443 maxconn 16
  server t 10.0.0.2:443 no-ssl maxconn 64
  server u 10.0.0.3:443 weight 0
  server-template v 3 v.svc:8000
)");
  EXPECT_EQ(to_string(config.listeners[0].address), "[::]:443");
  EXPECT_THAT(routes(config), ElementsAre(" > a"));
  const PoolConfig& a = pool(config, "a");
  EXPECT_THAT(addresses(a), ElementsAre("10.0.0.1:443", "10.0.0.2:443", "v.svc:8000"));
  EXPECT_TRUE(a.backends[0].address.secure);
  EXPECT_FALSE(a.backends[1].address.secure);
  EXPECT_TRUE(a.backends[2].address.secure);
  EXPECT_EQ(a.limits.max_in_flight, 16U);
  EXPECT_EQ(a.timeouts.idle, std::chrono::hours(24));
}

TEST(ImportHaproxy, SyntaxErrorsHaveTheirLine) {
  const Import early = import_config(ImportFormat::haproxy, "bind :80\n");
  EXPECT_EQ(early.error.line, 1);
  EXPECT_EQ(early.error.text, "'bind' stands before the first section");
  EXPECT_EQ(import_config(ImportFormat::haproxy, "global\n log \"x\n").error.line, 2);
}

TEST(ImportLitellm, TakesModelsGroupsAndTheRouter) {
  const Config config = imported(ImportFormat::litellm, sample(ImportFormat::litellm));

  EXPECT_THAT(routes(config), ElementsAre(" llama-70b llama > llama-70b > llama-70b-2",
                                          " small > small", " qwen-* > qwen"));
  const PoolConfig& llama = pool(config, "llama-70b");
  EXPECT_EQ(llama.engine, "vllm");
  EXPECT_EQ(llama.model, "meta-llama/Llama-3.3-70B-Instruct");
  EXPECT_THAT(addresses(llama), ElementsAre("10.0.0.1:8000", "10.0.0.2:8000"));
  EXPECT_EQ(llama.fallback.pool, "small");
  EXPECT_EQ(llama.retry.attempts, 3U);
  EXPECT_EQ(config.routes[0].targets[0].weight, 3U);
  EXPECT_EQ(pool(config, "small").engine, "ollama");
  EXPECT_EQ(pool(config, "small").timeouts.first_byte, std::chrono::seconds(30));
  EXPECT_EQ(pool(config, "small").fallback.pool, "");
  EXPECT_EQ(pool(config, "qwen").model, "");
}

TEST(ImportLitellm, ModelsThatAreLeftOutReachNoPattern) {
  const Config config = imported(ImportFormat::litellm, R"(
model_list:
  - {model_name: "*", litellm_params: {model: "openai/*", api_base: http://a:1, timeout: 600}}
  - {model_name: gpt-4o, litellm_params: {model: azure/gpt-4o}}
litellm_settings: {request_timeout: 30}
)");
  EXPECT_THAT(routes(config), ElementsAre(" gpt-4o = 501", " > pool"));
  EXPECT_EQ(pool(config, "pool").timeouts.first_byte, std::chrono::seconds(600));
  EXPECT_EQ(to_string(config.listeners[0].address), "0.0.0.0:4000");
}

TEST(ImportLitellm, TheMasterKeyIsThatOfATenant) {
  const Config config = imported(ImportFormat::litellm, sample(ImportFormat::litellm));
  EXPECT_TRUE(config.auth.has_value());
  ASSERT_EQ(config.tenants.size(), 1U);
  EXPECT_EQ(config.tenants[0].name, "master");
  // printf %s sk-very-secret | sha256sum
  EXPECT_THAT(config.tenants[0].keys_sha256,
              ElementsAre("e7f15906532b67bd6092bc956bd77b16e621e812dc0ec0479544b370334d6b37"));
  EXPECT_EQ(to_string(config.listeners[0].address), "0.0.0.0:4000");
}

TEST(ImportLitellm, ListensOnThisMachineWhereItCannotTellWhoMayAsk) {
  const std::string models =
      "model_list: [{model_name: a, litellm_params: {model: vllm/a, api_base: http://a:1}}]\n";
  for (const std::string setting :
       {"master_key: os.environ/KEY", "master_key: sk-1\n  allowed_ips: [10.0.0.1]"}) {
    const Import result =
        import_config(ImportFormat::litellm, models + "general_settings:\n  " + setting + "\n");
    ASSERT_TRUE(result.config) << result.error.text;
    EXPECT_EQ(to_string(result.config->listeners[0].address), "127.0.0.1:4000") << setting;
    EXPECT_THAT(result.notes, Contains(Field(&ImportNote::opens, true))) << setting;
  }
}

TEST(ImportLitellm, LimitsOfAllDeploymentsAreThoseOfTheirModel) {
  const auto limits = [](const std::string& first, const std::string& second) {
    std::string models = "model_list:\n";
    for (const auto& [name, more] : {std::pair("a", first), std::pair("b", second)}) {
      models.append("  - {model_name: m, litellm_params: {model: vllm/").append(name);
      models.append(", api_base: http://").append(name).append(":1").append(more).append("}}\n");
    }
    std::vector<std::string> found;
    for (const RateLimitConfig& each : imported(ImportFormat::litellm, models).rate_limits) {
      std::string text = each.by[0] + ' ' + each.models[0];
      for (const LimitRate& rate : each.requests) text += " r" + std::to_string(rate.amount);
      for (const LimitRate& rate : each.tokens) text += " t" + std::to_string(rate.amount);
      found.push_back(text);
    }
    return found;
  };
  EXPECT_THAT(limits(", rpm: 10, tpm: 100", ", rpm: 5, tpm: 50"), ElementsAre("model m r15 t150"));
  EXPECT_THAT(limits(", rpm: 10, tpm: 100", ", rpm: 5"), ElementsAre("model m r15"));
  EXPECT_THAT(limits("", ", rpm: 5"), IsEmpty());
}

TEST(ImportLitellm, ModelsWithTheSameLimitsShareARule) {
  std::string models = "model_list:\n";
  for (int at = 0; at < 60; ++at) {
    models += "  - {model_name: m" + std::to_string(at) +
              ", litellm_params: {model: vllm/m, api_base: http://a:1, rpm: " +
              std::to_string(at < 20 ? 5 : at) + "}}\n";
  }
  const Import result = import_config(ImportFormat::litellm, models);
  ASSERT_TRUE(result.config) << result.error.text;
  EXPECT_EQ(result.config->rate_limits[0].models.size(), 20U);
  EXPECT_EQ(result.config->rate_limits.size(), 28U);
  EXPECT_THAT(problems_of(*result.config), IsEmpty());
  EXPECT_EQ(std::ranges::count_if(result.notes, &ImportNote::opens), 14);
}

TEST(ImportLitellm, AProvidersApiIsAHostedPoolWithAKeyInAFile) {
  const Config config = imported(ImportFormat::litellm, R"(
model_list:
  - {model_name: own, litellm_params: {model: vllm/own, api_base: "http://a:1"}}
  - {model_name: gpt, litellm_params: {model: openai/gpt-4o, api_key: os.environ/MY_KEY}}
litellm_settings: {fallbacks: [{own: [gpt]}], allowed_fails: 2, cooldown_time: 60}
)");
  const PoolConfig& gpt = pool(config, "gpt");
  EXPECT_TRUE(gpt.hosted);
  EXPECT_EQ(gpt.engine, "generic");
  EXPECT_EQ(gpt.model, "gpt-4o");
  EXPECT_THAT(addresses(gpt), ElementsAre("api.openai.com:443"));
  EXPECT_TRUE(gpt.backends[0].address.secure);
  EXPECT_EQ(gpt.backends[0].api_key_file, "/etc/evenkeel/MY_KEY");
  EXPECT_EQ(pool(config, "own").fallback.pool, "gpt");
  EXPECT_EQ(pool(config, "own").outlier.consecutive, 3U);
  EXPECT_EQ(pool(config, "own").outlier.ejection, std::chrono::minutes(1));
}

TEST(ImportLitellm, ProvidersOwnApisAreAnError) {
  const Import result = import_config(
      ImportFormat::litellm, "model_list: [{model_name: a, litellm_params: {model: azure/x}}]");
  EXPECT_FALSE(result.config);
  EXPECT_THAT(result.error.text, HasSubstr("api_base"));
  EXPECT_EQ(import_config(ImportFormat::litellm, "a: [").error.line, 1);
}

TEST(Import, ShowsNoPasswordOfAUrl) {
  const Import result = import_config(
      ImportFormat::nginx, "server { location / { proxy_pass http://me:very-secret@h:1/x; } }");
  for (const ImportNote& note : result.notes) {
    EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
  }
}

TEST(Import, ShowsNoValueThatMayBeASecret) {
  for (const char* text :
       {"server { location / { proxy_pass http://a; proxy_set_header X-Up \"Bearer very-secret\"; "
        "if ($http_x = very-secret) { return 401; } set $key very-secret; } }",
        "server { return 200 very-secret; } server { location / { proxy_pass http://a; } }"}) {
    for (const ImportNote& note : import_config(ImportFormat::nginx, text).notes) {
      EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
    }
  }
  const Import result = import_config(
      ImportFormat::haproxy, haproxy(" http-request set-header X-Up \"Bearer very-secret\"\n"
                                     " http-request deny unless { hdr(x-key) very-secret }\n"
                                     " use_backend b if { hdr_sub(x-key) very-secret }\n"
                                     " default_backend a\n"));
  EXPECT_THAT(result.notes, Contains(Field(&ImportNote::text, HasSubstr("set-header X-Up ..."))));
  for (const ImportNote& note : result.notes) {
    EXPECT_THAT(note.text, testing::Not(HasSubstr("very-secret")));
  }
}

// Whatever the text: no crash, and what comes out passes the check.
TEST(Import, DamagedSamplesGiveAnErrorOrAValidConfiguration) {
  std::mt19937 random(7);  // NOLINT(*-msc51-cpp)
  struct Sample {
    ImportFormat format;
    std::string whole;
    int rounds;
  };
  std::vector<Sample> all;
  for (const ImportFormat format : all_formats) all.push_back({format, sample(format), 400});
  for (const std::string& name : published())
    all.push_back({format_of(name), text_of(samples() / name), 40});
  for (const auto& [format, whole, rounds] : all) {
    for (int round = 0; round < rounds; ++round) {
      std::string text = whole;
      const std::string_view pieces = "{};\"'#\n \\$:/*[]\xff%.@-0";
      for (int change = 0; change < 1 + round % 12; ++change) {
        const std::size_t at = random() % text.size();
        const std::size_t length = std::min<std::size_t>(random() % 40, text.size() - at);
        if (text.size() > 40 && random() % 2 == 0) {
          text.erase(at, length % (text.size() - 1));
        } else {
          text.insert(at, random() % 2 == 0 ? text.substr(at, length)
                                            : std::string(1, pieces[random() % pieces.size()]));
        }
      }
      const Import result = import_config(format, text);
      if (result.config) {
        EXPECT_THAT(problems_of(*result.config), IsEmpty()) << text;
      } else {
        EXPECT_NE(result.error.text, "");
      }
    }
  }
}

TEST(Import, HugeFilesAreReadInBounds) {
  std::string blocks;
  for (int at = 0; at < 300'000; ++at) blocks += "a {";
  EXPECT_EQ(import_config(ImportFormat::nginx, blocks).error.text, "blocks are nested too deeply");
  std::string words;
  for (int at = 0; at < 300'000; ++at) words += "a;";
  EXPECT_EQ(import_config(ImportFormat::nginx, words).error.text, "the file has too many words");
  std::string names = "server { server_name";
  for (int at = 0; at < 50'000; ++at) names += " h" + std::to_string(at);
  names += "; ";
  for (int at = 0; at < 15'000; ++at) {
    names += "location /" + std::to_string(at) +
             " { proxy_pass http://x:" + std::to_string(1 + at % 3000) + "; } ";
  }
  const Import many =
      import_config(ImportFormat::nginx,
                    names + "} server { server_name b; location / { proxy_pass http://y; } }");
  ASSERT_TRUE(many.config);
  EXPECT_EQ(many.config->routes.size(), 10'000U);
  EXPECT_EQ(many.config->pools.size(), 2'000U);
  std::string sections = "defaults\n mode http\n";
  for (int at = 0; at < 20'000; ++at) {
    sections += "listen x\n bind :" + std::to_string(1 + at) +
                "\n server a 10.0.0.1:" + std::to_string(1 + at) + "\n";
  }
  EXPECT_EQ(import_config(ImportFormat::haproxy, sections).config->routes.size(), 1U);
  std::string lines = "global\n";
  for (int at = 0; at < 300'000; ++at) lines += "a\n";
  EXPECT_EQ(import_config(ImportFormat::haproxy, lines).error.text, "the file has too many words");
}

}  // namespace
}  // namespace evenkeel
