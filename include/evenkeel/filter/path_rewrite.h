// Another path for backends than the client's, as a route says.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/regex.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The `rewrite` of one route. Works on the path in its normal form, and keeps the query.
/// Immutable.
class PathRewrite {
 public:
  /// REQUIRES: the route has one.
  explicit PathRewrite(const RouteConfig& route);

  /// The target that backends get; empty: as the client sent it. Errors: bad_request for a path
  /// with a dot segment that only a server sees that decodes all of it (`..%2f`): it could leave
  /// the prefix that the route gives it.
  Result<std::string> target_of(std::string_view target) const;

 private:
  std::optional<std::string> path_of(std::string_view path) const;

  std::string stripped_;        // "/team-a"; empty: nothing
  std::optional<Regex> regex_;  // replaced by `replacement_`
  std::string replacement_;     // of a match; without a regex, of the first segments
  std::size_t segments_ = 0;    // so many
};

using PathRewrites = ByRoute<PathRewrite>;

/// The rewrites of the routes that have one.
PathRewrites path_rewrites_of(const std::vector<RouteConfig>& routes);

/// Gives the handlers behind it the path that backends get. In front of it, and when the answer is
/// there, `request.path` is the client's.
class PathRewriteFilter final : public Filter {
 public:
  /// `rewrites` outlives the filter.
  explicit PathRewriteFilter(const PathRewrites& rewrites) : rewrites_(rewrites) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  const PathRewrites& rewrites_;
};

}  // namespace evenkeel
