#include "evenkeel/proxy/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  return PathPattern(pattern).matches(path);
}

TEST(PathPattern, MatchesExactlyWithoutWildcards) {
  EXPECT_TRUE(matches("/v1/models", "/v1/models"));
  EXPECT_FALSE(matches("/v1/models", "/v1/models/"));
  EXPECT_FALSE(matches("/v1/models", "/v1/model"));
  EXPECT_FALSE(matches("/v1/models", "/V1/models"));
  EXPECT_TRUE(matches("/", "/"));
  EXPECT_FALSE(matches("/", "/a"));
}

TEST(PathPattern, MatchesAnySegmentWithAStar) {
  EXPECT_TRUE(matches("/v1/*/x", "/v1/a/x"));
  EXPECT_FALSE(matches("/v1/*/x", "/v1/x"));
  EXPECT_FALSE(matches("/v1/*/x", "/v1//x"));
  EXPECT_FALSE(matches("/v1/*/x", "/v1/a/b/x"));
  EXPECT_TRUE(matches("/v1/*", "/v1/a"));
  EXPECT_FALSE(matches("/v1/*", "/v1/"));
  EXPECT_FALSE(matches("/v1/*", "/v1"));
  EXPECT_FALSE(matches("/v1/*", "/v1/a/"));
}

TEST(PathPattern, MatchesAnyRestWithTwoFinalStars) {
  for (const std::string_view path : {"/v1", "/v1/", "/v1/a", "/v1/a/b"})
    EXPECT_TRUE(matches("/v1/**", path)) << path;
  for (const std::string_view path : {"/v10", "/v", "/", "/v2/v1", "*"})
    EXPECT_FALSE(matches("/v1/**", path)) << path;
  for (const std::string_view path : {"/", "/a", "*"}) EXPECT_TRUE(matches("/**", path)) << path;
  EXPECT_TRUE(matches("/*/b/**", "/a/b/c/d"));
  EXPECT_FALSE(matches("/*/b/**", "/a/c"));
}

TEST(Router, SaysWhatEachRouteLacks) {
  std::vector<RouteConfig> routes(6);
  routes[0].match = {.host = "other"};
  routes[1].match = {.path = "/v2/**"};
  routes[2].match = {.path = "/v1/**", .method = {"PUT"}};
  routes[3].match = {.header = {{"x-tenant", "gold"}}};
  routes[4].match = {.model = {"large"}};
  routes[5].match = {.path = "/v1/**"};
  Request request;
  request.method = "POST";
  request.authority = "a";
  request.path = "/v1/chat/completions";
  request.info.inference = std::make_unique<InferenceInfo>();
  request.info.inference->request.model = "small";

  std::vector<std::string> words;
  for (const Mismatch each : Router(routes).mismatches(request)) {
    words.emplace_back(to_string(each));
  }
  EXPECT_EQ(words, (std::vector<std::string>{"host", "path", "method", "header", "body", "none"}));
}

/// The first of these matches that a request meets; nothing: none does.
std::optional<std::size_t> first_of(const std::vector<RouteMatch>& matches, const Request& request,
                                    const std::vector<ListenerConfig>* listeners = nullptr) {
  std::vector<RouteConfig> routes;
  for (const RouteMatch& match : matches) routes.push_back({.match = match});
  const auto choice = Router(routes, listeners).route(request);
  return choice ? std::optional(choice->index) : std::nullopt;
}

TEST(Router, MatchesParametersOfTheQuery) {
  const auto matches = [](std::string_view target, const char* name, const char* value) {
    const Request request{.method = "GET", .path = target};
    return first_of({{.query = {{name, value}}}}, request).has_value();
  };
  EXPECT_TRUE(matches("/?tier=gold", "tier", "gold"));
  EXPECT_TRUE(matches("/?a&tier=gold&b", "tier", "gold"));
  EXPECT_TRUE(matches("/?tier=silver&tier=gold", "tier", "gold"));
  EXPECT_TRUE(matches("/?tie%72=g%6fld", "tier", "gold"));
  EXPECT_TRUE(matches("/?a+b=c%20d", "a b", "c d"));
  EXPECT_TRUE(matches("/?tier", "tier", "*"));
  EXPECT_TRUE(matches("/?tier", "tier", ""));
  EXPECT_TRUE(matches("/?tier=g=ld", "tier", "g=*"));
  EXPECT_FALSE(matches("/?tier=golden", "tier", "gold"));
  EXPECT_FALSE(matches("/?tiers=gold", "tier", "*"));
  EXPECT_FALSE(matches("/", "tier", "*"));
  EXPECT_FALSE(matches("/?", "tier", "*"));
}

TEST(Router, MatchesPathsByExpressionsOfAllOfThem) {
  const auto matches = [](std::string_view target, const char* regex) {
    const Request request{.method = "GET", .path = target};
    return first_of({{.path_regex = regex}}, request).has_value();
  };
  EXPECT_TRUE(matches("/v1/a?b", "/v[12]/.*"));
  EXPECT_TRUE(matches("//v1/%61", "/v[12]/a"));
  EXPECT_FALSE(matches("/v3/a", "/v[12]/.*"));
  EXPECT_FALSE(matches("/x/v1/a", "/v[12]/.*"));
}

TEST(Router, MatchesClientsAsTrustedProxiesNameThem) {
  std::string why;
  const RouteMatch inner{.client = {*parse_network("10.0.0.0/8", why)}};
  const std::vector<ListenerConfig> listeners{
      {.name = "public", .trusted_proxies = {*parse_network("192.0.2.1", why)}}};
  const auto matches = [&](std::string_view peer, std::string_view forwarded) {
    Request request{.method = "GET", .path = "/"};
    request.info.identity = {.listener = "public", .client = peer};
    request.fields.add("x-forwarded-for", forwarded);
    return first_of({inner}, request, &listeners).has_value();
  };
  EXPECT_TRUE(matches("192.0.2.1", "10.1.2.3"));
  EXPECT_TRUE(matches("10.1.2.3", "11.0.0.1"));
  EXPECT_FALSE(matches("192.0.2.1", "11.0.0.1"));
  EXPECT_FALSE(matches("192.0.2.2", "10.1.2.3"));
}

TEST(Router, MatchesWhatNoneOfItsExclusionsDoes) {
  const RouteMatch match{
      .path = "/v1/**",
      .none_of = {{.path = "/v1/admin/**"}, {.method = {"PUT"}, .listener = {"public"}}}};
  const auto matches = [&](std::string_view method, std::string_view path,
                           std::string_view listener) {
    Request request{.method = method, .path = path};
    request.info.identity.listener = listener;
    return first_of({match}, request).has_value();
  };
  EXPECT_TRUE(matches("GET", "/v1/a", "public"));
  EXPECT_TRUE(matches("PUT", "/v1/a", "inner"));
  EXPECT_FALSE(matches("PUT", "/v1/a", "public"));
  EXPECT_FALSE(matches("GET", "/v1/admin/a", "inner"));
}

TEST(Router, NamesTheRareConditionThatARequestDoesNotMeet) {
  std::vector<RouteConfig> routes(6);
  routes[0].match = {.path_regex = "/y"};
  routes[1].match = {.query = {{"a", "b"}}};
  routes[2].match = {.listener = {"inner"}};
  std::string why;
  routes[3].match = {.client = {*parse_network("10.0.0.0/8", why)}};
  routes[4].match = {.none_of = {{.path = "/x"}}};
  routes[5].match = {.path_regex = "/x"};
  Request request{.method = "GET", .path = "/x"};
  request.info.identity = {.listener = "public", .client = "192.0.2.1"};

  std::vector<std::string> words;
  for (const Mismatch each : Router(routes).mismatches(request)) {
    words.emplace_back(to_string(each));
  }
  EXPECT_EQ(words,
            (std::vector<std::string>{"path", "query", "listener", "client", "not", "none"}));
  routes.pop_back();
  EXPECT_NE(Router(routes).refusal_of(request).error.detail.find("ctl explain"), std::string::npos);
}

TEST(Router, TakesPreflightsForTheMethodThatAPageAsksFor) {
  std::vector<RouteConfig> routes(1);
  routes[0].match = {.method = {"POST"}};
  Request request{.method = "OPTIONS", .path = "/"};
  request.fields.add("origin", "https://a.test");
  request.fields.add("access-control-request-method", "POST");

  EXPECT_FALSE(Router(routes).route(request));
  routes[0].cors = CorsConfig{.origins = {"*"}};
  EXPECT_TRUE(Router(routes).route(request));
}

TEST(Router, FindsRareConditionsAmongManyRoutes) {
  std::vector<RouteConfig> routes(100);
  for (std::size_t i = 0; i < routes.size(); ++i)
    routes[i].match.path = "/" + std::to_string(i) + "/**";
  routes[70].match = {.path_regex = "/5./x"};
  const Router router(routes);
  EXPECT_EQ(router.route({.method = "GET", .path = "/80/x"})->index, 80U);
  EXPECT_EQ(router.route({.method = "GET", .path = "/51/x"})->index, 51U);
  EXPECT_FALSE(router.route({.method = "GET", .path = "/500/x"}));
  EXPECT_EQ(router.route({.method = "GET", .path = "/5a/x"})->index, 70U);
}

TEST(Router, GivesAFixedResponseOnlyToRequestsThatNameItsModel) {
  std::vector<RouteConfig> routes(2);
  routes[0].match = {.model = {"old"}};
  routes[0].respond = RespondConfig{};
  const Router router(routes);
  const auto route = [&](std::string_view path) {
    Request request;
    request.method = "GET";
    request.authority = "a";
    request.path = path;
    return router.route(request)->index;
  };

  EXPECT_EQ(route("/v1/models"), 1U);
  EXPECT_EQ(route("/v1/models/old"), 0U);
  EXPECT_EQ(route("/v1/models/new"), 1U);
}

class Routes : public testing::Test {
 protected:
  std::string route(std::string_view path, std::string_view host = "a",
                    std::string_view method = "GET", std::string_view tenant = "") {
    std::vector<RouteConfig> routes(5);
    routes[0] = {.name = "header", .match = {.header = {{"x-tenant", "gold"}}}};
    routes[1] = {.name = "host", .match = {.host = "api.example"}};
    routes[2] = {.name = "below", .match = {.host = "*.example"}};
    routes[3] = {.name = "post", .match = {.path = "/v1/**", .method = {"POST", "PUT"}}};
    routes[4] = {.name = "get", .match = {.path = "/v1/models"}};
    const Router router(routes);
    Request request{.method = method, .authority = host, .path = path};
    if (!tenant.empty()) request.fields.add("X-Tenant", tenant);
    const auto found = router.route(request);
    return found ? routes[found->index].name : to_string(router.refusal_of(request).error.fault);
  }
};

TEST_F(Routes, AreFoundByTheFirstThatMatches) {
  EXPECT_EQ(route("/v1/models"), "get");
  EXPECT_EQ(route("/v1/models", "a", "POST"), "post");
  EXPECT_EQ(route("/v1/models", "a", "PUT"), "post");
  EXPECT_EQ(route("/v1/models", "api.example", "POST"), "host");
  EXPECT_EQ(route("/v1/models", "api.example", "POST", "gold"), "header");
  EXPECT_EQ(route("/v1/models", "a", "GET", "golden"), "get");
  EXPECT_EQ(route("/v1/models", "a", "post"), "get");
}

TEST_F(Routes, CompareHostsWithoutCaseAndPort) {
  EXPECT_EQ(route("/", "API.Example:8080"), "host");
  EXPECT_EQ(route("/", "b.example"), "below");
  EXPECT_EQ(route("/", "b.c.EXAMPLE:1"), "below");
  EXPECT_EQ(route("/", "example"), "no_route");
  EXPECT_EQ(route("/", ".example"), "no_route");
  EXPECT_EQ(route("/", "badexample"), "no_route");
  EXPECT_EQ(route("/", "[::1]:80"), "no_route");
}

TEST_F(Routes, CompareHostsHoweverTheyAreWritten) {
  EXPECT_EQ(route("/", "api.example."), "host");
  EXPECT_EQ(route("/", "API.Example.:8080"), "host");
  EXPECT_EQ(route("/", "b.example.:80"), "below");
  EXPECT_EQ(route("/", "example."), "no_route");
  for (const std::string_view host : {"[::1]", "[0:0::1]:80", "[0::0001]"}) {
    EXPECT_TRUE(
        Router({{.name = "x", .match = {.host = "::1"}}}).route({.authority = host, .path = "/"}))
        << host;
  }
  EXPECT_TRUE(Router({{.name = "x", .match = {.host = "10.0.0.1"}}})
                  .route({.authority = "[::FFFF:10.0.0.1]:80", .path = "/"}));
}

TEST_F(Routes, AreMatchedOnTheNormalisedPath) {
  EXPECT_EQ(route("/x/..//v1/%6dodels?a=b"), "get");
  EXPECT_EQ(route("/v1/../secret", "a", "POST"), "no_route");
  EXPECT_EQ(route("/v1%2Fmodels"), "no_route");
  EXPECT_EQ(route("/%25761/models"), "no_route");
  EXPECT_EQ(route("/../v1/models"), "bad_request");
}

TEST_F(Routes, SayWhenThereIsNone) { EXPECT_EQ(route("/nothing"), "no_route"); }

class CallRoutes : public testing::Test {
 protected:
  std::string route(std::string_view path, std::string_view type = "application/grpc",
                    std::string_view method = "POST") {
    std::vector<RouteConfig> routes(3);
    routes[0] = {.name = "check", .match = {.grpc = {"grpc.health.v1.Health/Check"}}};
    routes[1] = {.name = "triton",
                 .match = {.grpc = {"inference.GRPCInferenceService", "grpc.health.v1.Health"}}};
    routes[2] = {.name = "rest", .match = {.path = "/inference.GRPCInferenceService/**"}};
    const Router router(routes);
    Request request{.method = method, .authority = "a", .path = path};
    request.fields.add("content-type", type);
    const auto found = router.route(request);
    return found ? routes[found->index].name : to_string(router.refusal_of(request).error.fault);
  }
};

TEST_F(CallRoutes, TakeTheMethodsOfAService) {
  EXPECT_EQ(route("/inference.GRPCInferenceService/ModelInfer"), "triton");
  EXPECT_EQ(route("/inference.GRPCInferenceService/ModelInfer", "application/grpc+proto"),
            "triton");
  EXPECT_EQ(route("/grpc.health.v1.Health/Check"), "check");
  EXPECT_EQ(route("/grpc.health.v1.Health/Watch"), "triton");
}

TEST_F(CallRoutes, AreForCallsOnly) {
  const std::string_view path = "/inference.GRPCInferenceService/ModelInfer";
  EXPECT_EQ(route(path, "application/json"), "rest");
  EXPECT_EQ(route(path, "application/grpc-web"), "rest");
  EXPECT_EQ(route(path, "application/grpc", "GET"), "rest");
}

TEST_F(CallRoutes, TakeNothingThatOnlyLooksLikeTheirs) {
  EXPECT_EQ(route("/grpc.health.v1.Health"), "no_route");
  EXPECT_EQ(route("/grpc.health.v1.Health/"), "no_route");
  EXPECT_EQ(route("/grpc.health.v1.Health/Check/x"), "no_route");
  EXPECT_EQ(route("/grpc.health.v1.HealthCheck/Check"), "no_route");
  EXPECT_EQ(route("/grpc.health.v1.health/Check"), "no_route");
}

TEST(RouteByHostHeader, IsARouteByTheAuthority) {
  const Router router({{.name = "x", .match = {.header = {{"host", "a:80"}}}}});
  EXPECT_TRUE(router.route({.authority = "a:80", .path = "/"}));
  EXPECT_TRUE(router.route({.authority = "A.", .path = "/"}));
  EXPECT_FALSE(router.route({.authority = "a:443", .path = "/"}));
  EXPECT_FALSE(router.route({.authority = "b", .path = "/"}));
}

// ---- many routes

/// A route of random parts, so that many of them overlap.
RouteConfig random_route(Rng& rng, std::uint32_t number) {
  const auto one_of = [&rng](std::initializer_list<const char*> choices) {
    return std::string(choices.begin()[rng.below(static_cast<std::uint32_t>(choices.size()))]);
  };
  RouteConfig route{.name = "r" + std::to_string(number), .match = {}};
  route.match.host = one_of({"", "", "a.x", "b.x", "*.x", "*.b.x", "h7"});
  route.match.path = one_of({"", "/**", "/v1/**", "/v1/*/c", "/v1", "/v1/b", "/v2/b/c", "/*/b",
                             "/*", "/v2/**", "/", "/w/**", "/v1/%62", "/%761//b/**"});
  if (rng.below(4) == 0) route.match.method = {one_of({"GET", "POST"})};
  if (rng.below(6) == 0) route.match.header["x-tenant"] = one_of({"1", "2"});
  if (rng.below(6) == 0) {
    route.match.path.clear();
    route.match.grpc = {one_of({"v1", "p.S/M", "p.S"}), "w/b"};
  }
  return route;
}

TEST(ManyRoutes, AreChosenAsFewAre) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<RouteConfig> routes;
    for (std::uint32_t i = 0; i < 60; ++i) {
      RouteConfig route = random_route(rng, i);
      const RouteMatch& match = route.match;
      const bool any = match.host.empty() && (match.path.empty() || match.path == "/**");
      if (!any || rng.below(8) == 0) routes.push_back(std::move(route));
    }
    while (routes.size() < 40) routes.push_back({.name = "none", .match = {.host = "none"}});
    std::vector<Router> single;
    for (const RouteConfig& route : routes) single.emplace_back(std::vector{route});
    const Router router(routes);

    for (const char* const authority :
         {"a.x", "A.x.:80", "b.x", "c.b.x.", ".x", "x", "h7:1", "", "[0::1]"}) {
      for (const char* const path : {"/", "/v1", "/v1/", "/v1/b", "/v1/b/c", "/v2/b/c", "/z/b",
                                     "/z", "/p.S/M", "/p.S/N", "/w/b", "*", "/V1"}) {
        for (const char* const method : {"GET", "POST"}) {
          Request request{.method = method, .authority = authority, .path = path};
          if (request.method == "POST")
            request.fields.add("content-type", "application/grpc", FieldId::content_type);
          request.fields.add("x-tenant", "1");
          std::optional<std::size_t> first;
          for (std::size_t i = 0; i < single.size() && !first; ++i) {
            if (single[i].route(request)) first = i;
          }
          const auto found = router.route(request);
          ASSERT_EQ(found.has_value(), first.has_value()) << method << " " << authority << path;
          if (first) {
            ASSERT_EQ(found->index, *first) << method << " " << authority << path;
          }
        }
      }
    }
  }
}

TEST(ManyRoutes, OfManyHostsPathsOrTenantsAreFoundWithoutTryingEach) {
  constexpr std::uint32_t count = 10'000;
  std::vector<RouteConfig> hosts;
  std::vector<RouteConfig> paths;
  std::vector<RouteConfig> prefixes;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    hosts.push_back({.name = number, .match = {.host = "t" + number + ".example"}});
    paths.push_back({.name = number, .match = {.path = "/v1/" + number}});
    prefixes.push_back({.name = number, .match = {.path = "/t" + number + "/**"}});
  }
  const auto seconds_per_request = [](const std::vector<RouteConfig>& routes, const Request& last) {
    const Router router(routes);
    constexpr int requests = 1000;
    const Instant began = Clock::now();
    for (int i = 0; i < requests; ++i) {
      const auto found = router.route(last);
      if (!found || found->index != count - 1) ADD_FAILURE() << last.authority << last.path;
    }
    return seconds_of(Clock::now() - began) / requests;
  };

  const double host = seconds_per_request(hosts, {.authority = "t9999.example:80", .path = "/a"});
  const double path = seconds_per_request(paths, {.authority = "x", .path = "/v1/9999"});
  const double prefix = seconds_per_request(prefixes, {.authority = "x", .path = "/t9999/a"});

  // Trying each takes 100 us and more; the index below 1 us, and some more on a busy machine.
  EXPECT_LT(std::max({host, path, prefix}), 30e-6) << host << " " << path << " " << prefix;
}

/// Routes with conditions on bodies, between others.
class RoutesByBody : public testing::Test {
 protected:
  RoutesByBody() : routes(4), request{.method = "POST", .authority = "a"} {
    routes[0] = {.name = "v2", .match = {.path = "/v2/**"}};
    routes[1] = {.name = "llama", .match = {.path = "/v1/**", .model = {"llama-*", "tiny"}}};
    routes[2] = {.name = "long",
                 .match = {.path = "/v1/**", .task = {"chat"}, .prompt_tokens = {{.min = 1000}}}};
    routes[3] = {.name = "rest", .match = {.path = "/v1/**"}};
  }
  std::string by_head(std::string_view path) {
    const Router router(routes);
    request.path = path;
    const auto found = router.route(request);
    if (!found) return "no_route";
    return routes[found->index].name + (found->needs_body ? "?" : "");
  }
  std::string by_body(InferenceRequest asked, std::size_t first = 0) {
    const Router router(routes);
    request.path = "/v1/chat/completions";
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request = std::move(asked);
    const auto found = router.route_inspected(request, first);
    return found ? routes[*found].name : "no_route";
  }

  std::vector<RouteConfig> routes;
  Request request;
};

TEST_F(RoutesByBody, WaitForTheBodyOnlyIfItCanTell) {
  EXPECT_EQ(by_head("/v1/chat/completions"), "long") << "it has no body to name a model";
  request.body = make_body("{}");
  EXPECT_EQ(by_head("/v1/chat/completions"), "llama?");
  EXPECT_EQ(by_head("/v1/files"), "llama?") << "any body may name a model";
  EXPECT_EQ(by_head("/v2/x"), "v2") << "an earlier route matches by its head";
  request.method = "GET";
  EXPECT_EQ(by_head("/v1/chat/completions"), "llama") << "the body of a GET is not read";
  request.method = "POST";
  request.fields.add("content-type", "application/grpc");
  EXPECT_EQ(by_head("/v1/files"), "llama") << "no gRPC call whose messages are read";
}

TEST_F(RoutesByBody, AreFoundFromTheFirstThatTheHeadAllowedOn) {
  EXPECT_EQ(by_body({.model = "tiny"}, 1), "llama");
  EXPECT_EQ(by_body({.model = "tiny"}, 2), "rest");
}

TEST_F(RoutesByBody, AreFoundByTheFirstHeadThatMatchesWithoutABody) {
  routes.pop_back();
  for (const std::string_view method : {"GET", "HEAD", "OPTIONS", "DELETE"}) {
    request.method = method;
    for (const std::string_view path : {"/v1/models", "/v1/models/", "/v1/files/x", "/v1/x?model="})
      EXPECT_EQ(by_head(path), "llama") << method << path;
  }
  request.method = "POST";
  EXPECT_EQ(by_head("/v1/responses/resp_1/cancel"), "llama");
  routes.resize(2);
  EXPECT_EQ(by_head("/v1/chat/completions"), "no_route") << "its API wants a body with a model";
}

TEST_F(RoutesByBody, TakeTheModelFromThePathOrTheQueryWithoutABody) {
  routes[0].match.host = "none";
  routes[2].match = {.model = {"org/*", "x y"}};
  routes.pop_back();
  request.method = "GET";
  for (const std::string_view path :
       {"/v1/realtime?model=org/a", "/v1/realtime?x=model&model=org%2Fa&model=org/a",
        "/v1/models/org/a", "/v1/models/org%2fa?x=y", "/a/v1/models/x%20y", "/v1/x?model=x+y",
        "/v2/models/x%20y/ready", "/v2/models/x%20y?model=tiny"})
    EXPECT_EQ(by_head(path), "long") << path;
  for (const std::string_view path : {"/v1/realtime?model=t%69ny", "/v1/models/tiny"})
    EXPECT_EQ(by_head(path), "llama") << path;
  EXPECT_EQ(by_head("/v1/realtime?model=org/a&model=tiny"), "llama") << "as without a model";
  for (const std::string_view path : {"/v1/models/none", "/v1/x?model=none", "/v1/x?model=%zz"})
    EXPECT_EQ(by_head(path), "no_route") << path;
  request.method = "OPTIONS";
  EXPECT_EQ(by_head("/v1/models/none"), "llama") << "a preflight is for all that a page may ask";
  request.method = "POST";
  request.upgrade = "websocket";
  request.body = make_body("{}");
  EXPECT_EQ(by_head("/v1/realtime?model=org/a"), "long");
}

class Refusals : public RoutesByBody {
 protected:
  Refusals() {
    routes[0].match = {.host = "*.b", .path = "/v2/**", .method = {"GET", "PUT"}};
    routes[3].match = {.path = "/v1/files", .method = {"PUT", "DELETE"}};
    request.path = "/v1/chat/completions";
  }
  /// The fault, the methods allowed, and the text.
  std::string refused() const {
    const RouteRefusal refusal = Router(routes).refusal_of(request);
    const std::string allow = refusal.allow.empty() ? "" : " [" + refusal.allow + "]";
    const std::string model = refusal.model.empty() ? "" : " <" + refusal.model + ">";
    return to_string(refusal.error.fault) + allow + model + " " + refusal.error.detail;
  }
  void ask(InferenceRequest asked) {
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request = std::move(asked);
  }
};

TEST_F(Refusals, SayThatNoModelIsNamed) {
  EXPECT_EQ(refused(), "bad_request the request names no model");
  ask({});
  EXPECT_EQ(refused(), "bad_request the request names no model");
  ask({.model_mistyped = true});
  EXPECT_EQ(refused(), "bad_request the `model` of the request is no string");
  ask({});
  request.fields.add("content-encoding", "br", FieldId::content_encoding);
  EXPECT_EQ(refused(),
            "bad_request the request names no model that can be read: its content-encoding `br` "
            "is not gzip, deflate or zstd");
}

TEST_F(Refusals, NameAModelThatNoRouteTakes) {
  routes.erase(routes.begin() + 2);
  ask({.model = "none"});
  EXPECT_EQ(refused(), "model_not_found <none> ");
  request.info.inference = nullptr;
  request.method = "GET";
  request.path = "/v1/models/no%2Fne";
  EXPECT_EQ(refused(), "model_not_found <no/ne> ");
}

TEST_F(Refusals, TellWhatABodyAsksFor) {
  ask({.task = InferenceTask::chat, .model = "none", .estimated_prompt_tokens = 9});
  EXPECT_EQ(refused(),
            "no_route no route for POST /v1/chat/completions of host a: none takes what its body "
            "asks for (task chat, about 9 prompt tokens, max_tokens not given)");
}

TEST_F(Refusals, ListTheMethodsThatRoutesTake) {
  request.authority = "x.b";
  request.path = "/v2/x";
  EXPECT_EQ(refused(),
            "method_not_allowed [GET, PUT] no route for POST /v2/x of host x.b: there, routes take "
            "GET, PUT");
  routes[3].match.path = "/**";
  EXPECT_TRUE(refused().starts_with("method_not_allowed [GET, PUT, DELETE] ")) << refused();
}

TEST_F(Refusals, TellWhatWasLookedAt) {
  request.path = "/v2/x/../y?secret";
  EXPECT_EQ(refused(),
            "no_route no route for POST /v2/y of host a: none with its host has this path");
  request.fields.add("content-type", "application/grpc");
  EXPECT_EQ(refused(),
            "no_route no route for POST /v2/y of host a: none with its host takes this call");
  routes.resize(1);
  EXPECT_EQ(refused(), "no_route no route for POST /v2/y of host a: none has this host");
  routes[0].match = {.header = {{"x-tenant", "gold"}}};
  EXPECT_EQ(refused(),
            "no_route no route for POST /v2/y of host a: those with its host and path want other "
            "header fields");
  request.path = "/%";
  EXPECT_EQ(refused().substr(0, 11), "bad_request");
}

TEST_F(RoutesByBody, AreFoundByModelTaskAndSize) {
  EXPECT_EQ(by_body({.model = "llama-8b"}), "llama");
  EXPECT_EQ(by_body({.model = "tiny"}), "llama");
  EXPECT_EQ(by_body({.model = "Llama-8b"}), "rest");
  EXPECT_EQ(by_body({.task = InferenceTask::chat, .estimated_prompt_tokens = 1000}), "long");
  EXPECT_EQ(by_body({.task = InferenceTask::chat, .estimated_prompt_tokens = 999}), "rest");
  EXPECT_EQ(by_body({.task = InferenceTask::embedding, .estimated_prompt_tokens = 1000}), "rest");
}

TEST_F(RoutesByBody, MatchAMaximumOnlyIfTheRequestNamesOne) {
  routes[1].match = {.path = "/v1/**", .max_tokens = {{.min = 10, .max = 20}}};
  EXPECT_EQ(by_body({.max_tokens = 10}), "llama");
  EXPECT_EQ(by_body({.max_tokens = 20}), "llama");
  EXPECT_EQ(by_body({.max_tokens = 21}), "rest");
  EXPECT_EQ(by_body({}), "rest");
}

}  // namespace
}  // namespace evenkeel
