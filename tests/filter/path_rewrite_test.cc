#include "evenkeel/filter/path_rewrite.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace evenkeel {
namespace {

/// The target that backends get of one; "400" if it is refused.
std::string rewritten(std::string_view target, const RewriteConfig& rewrite,
                      std::string_view match = "/t/**") {
  RouteConfig route{.name = "a", .match = {.path = std::string(match)}};
  route.rewrite = rewrite;
  const auto result = PathRewrite(route).target_of(target);
  if (!result) return result.error().fault == Fault::bad_request ? "400" : "?";
  return result->empty() ? std::string(target) : *result;
}

TEST(PathRewrite, StripsWholeSegments) {
  const RewriteConfig strip{.strip_prefix = "/t"};
  EXPECT_EQ(rewritten("/t/v1/models", strip), "/v1/models");
  EXPECT_EQ(rewritten("/t", strip), "/");
  EXPECT_EQ(rewritten("/t?a=b", strip), "/?a=b");
  EXPECT_EQ(rewritten("/t/", strip), "/");
  EXPECT_EQ(rewritten("/tt/a", strip), "/tt/a");
  EXPECT_EQ(rewritten("//t//a", strip), "/a");
  EXPECT_EQ(rewritten("/t/t/a", strip), "/t/a");
}

TEST(PathRewrite, ReplacesWhatTheRouteHasBeforeItsRest) {
  EXPECT_EQ(rewritten("/t/a?b", {.prefix = "/x/y"}), "/x/y/a?b");
  EXPECT_EQ(rewritten("/t", {.prefix = "/x"}), "/x");
  EXPECT_EQ(rewritten("/any/t/a", {.prefix = "/x"}, "/*/t/**"), "/x/a");
  EXPECT_EQ(rewritten("/a", {.prefix = "/x"}, "/**"), "/x/a");
  EXPECT_EQ(rewritten("/a", {.prefix = "/x"}, ""), "/x/a");
}

TEST(PathRewrite, ReplacesWhatAnExpressionMatches) {
  const RewriteConfig rewrite{.regex = "^/t/([^/]+)/(.*)$", .to = R"(/\2?team=\1)"};
  EXPECT_EQ(rewritten("/t/a/b", rewrite), "/b?team=a");
  EXPECT_EQ(rewritten("/t/a/b?c=d", rewrite), "/b?team=a&c=d");
  EXPECT_EQ(rewritten("/t/a", rewrite), "/t/a");
  EXPECT_EQ(rewritten("/t/a", {.regex = "^/t/", .to = "x/"}), "/x/a");
}

TEST(PathRewrite, RefusesDotSegmentsThatOnlyBackendsSee) {
  for (const std::string_view target :
       {"/t/..%2fa", "/t/%2e%2e%2Fa", "/t/a%2F..", "/t/..\\a", "/t/..%5ca", "/t/.%2f"}) {
    EXPECT_EQ(rewritten(target, {.prefix = "/x"}), "400") << target;
  }
  EXPECT_EQ(rewritten("/t/a%2Fb", {.prefix = "/x"}), "/x/a%2Fb");
  EXPECT_EQ(rewritten("/t/..a%2F", {.prefix = "/x"}), "/x/..a%2F");
}

TEST(PathRewrite, ResolvesDotSegmentsThatAnExpressionMakes) {
  EXPECT_EQ(rewritten("/t/-/b", {.regex = "-", .to = ".."}), "/b");
  EXPECT_EQ(rewritten("/-/-/-", {.regex = ".*", .to = "/../x"}), "400");
}

/// Stands behind the filter and keeps the path that it was given.
class RecordingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    path = request.path;
    return Result<Response>(Response{});
  }
  std::string path;
};

TEST(PathRewriteFilter, RestoresTheClientsPathWithTheAnswer) {
  std::vector<RouteConfig> routes(2);
  routes[0].name = "plain";
  routes[1] = {.name = "short", .match = {.path = "/t/**"}};
  routes[1].rewrite = RewriteConfig{.strip_prefix = "/t"};
  const PathRewrites rewrites = path_rewrites_of(routes);
  PathRewriteFilter filter(rewrites);
  RecordingHandler backend;
  Request request{.path = "/t/a"};
  request.info.identity.route = "short";
  request.info.identity.routing = {.state = RouteState::routed, .route = 1};

  EXPECT_TRUE(filter.handle(request, backend).ready());
  EXPECT_EQ(backend.path, "/a");
  EXPECT_EQ(request.path, "/t/a");

  // By an older version of the file, in which the route has another number.
  request.info.identity.routing.route = 0;
  EXPECT_TRUE(filter.handle(request, backend).ready());
  EXPECT_EQ(backend.path, "/a");

  request.info.identity.route = "plain";
  EXPECT_TRUE(filter.handle(request, backend).ready());
  EXPECT_EQ(backend.path, "/t/a");
}

}  // namespace
}  // namespace evenkeel
