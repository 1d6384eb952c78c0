#include "evenkeel/proxy/router.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

std::string normalised(std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  return path ? std::string(*path) : "error: " + path.error().detail;
}

bool refused(std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  return !path && path.error().fault == Fault::bad_request && path.error().side == Side::client;
}

bool matches(std::string_view pattern, std::string_view path) {
  return PathPattern(pattern).matches(path);
}

TEST(NormalisedPath, KeepsPlainPathsAndRemovesTheQuery) {
  EXPECT_EQ(normalised("/"), "/");
  EXPECT_EQ(normalised("/v1/models"), "/v1/models");
  EXPECT_EQ(normalised("/v1/models/"), "/v1/models/");
  EXPECT_EQ(normalised("/v1?a=/../b//c"), "/v1");
  EXPECT_EQ(normalised("/v1?a=%zz"), "/v1");
  EXPECT_EQ(normalised("/?"), "/");
  EXPECT_EQ(normalised("*"), "*");
  EXPECT_EQ(normalised("/a.b/.c"), "/a.b/.c");
  EXPECT_EQ(normalised("/a/..b/b../..."), "/a/..b/b../...");
}

TEST(NormalisedPath, ResolvesDotSegmentsAndMergesSlashes) {
  EXPECT_EQ(normalised("/a/./b"), "/a/b");
  EXPECT_EQ(normalised("/a/../b"), "/b");
  EXPECT_EQ(normalised("/a/b/.."), "/a/");
  EXPECT_EQ(normalised("/a/b/."), "/a/b/");
  EXPECT_EQ(normalised("/a/.."), "/");
  EXPECT_EQ(normalised("/."), "/");
  EXPECT_EQ(normalised("//"), "/");
  EXPECT_EQ(normalised("///a//b///"), "/a/b/");
  EXPECT_EQ(normalised("/a//../b"), "/b");
}

TEST(NormalisedPath, DecodesUnreservedCharactersBeforeItResolvesDots) {
  EXPECT_EQ(normalised("/%61dmin"), "/admin");
  EXPECT_EQ(normalised("/a/%2e%2E/b"), "/b");
  EXPECT_EQ(normalised("/a/.%2e/b"), "/b");
  EXPECT_EQ(normalised("/%7Euser/%2D%5F%30"), "/~user/-_0");
}

TEST(NormalisedPath, KeepsReservedCharactersEncoded) {
  EXPECT_EQ(normalised("/a%2Fb"), "/a%2Fb");
  EXPECT_EQ(normalised("/a%2f..%2fb"), "/a%2f..%2fb");
  EXPECT_EQ(normalised("/a%5C..%5cb"), "/a%5C..%5cb");
  EXPECT_EQ(normalised("/a%20b%3F"), "/a%20b%3F");
  EXPECT_EQ(normalised("/%252e%252e/a"), "/%252e%252e/a");  // once, not twice
  EXPECT_EQ(normalised("/%c3%bc"), "/%c3%bc");
}

TEST(NormalisedPath, RefusesInvalidPaths) {
  for (const std::string_view target :
       {"/..", "/../a", "/a/../../b", "/%2e%2e", "/a/..//..", "/%", "/%4", "/%zz", "/a%0", "/%00",
        "/a%00b", "/%2", "/./..", "//..", "/%-1"}) {
    EXPECT_TRUE(refused(target)) << target << " became " << normalised(target);
  }
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
    return found ? routes[*found].name : to_string(found.error().fault);
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

TEST_F(Routes, AreMatchedOnTheNormalisedPath) {
  EXPECT_EQ(route("/x/..//v1/%6dodels?a=b"), "get");
  EXPECT_EQ(route("/v1/../secret", "a", "POST"), "no_route");
  EXPECT_EQ(route("/v1%2Fmodels"), "no_route");
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
    return found ? routes[*found].name : to_string(found.error().fault);
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
  EXPECT_FALSE(router.route({.authority = "a", .path = "/"}));
}

}  // namespace
}  // namespace evenkeel
