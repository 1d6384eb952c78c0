// Finds the route of a request by host, path, header fields, method and gRPC call. The first match
// wins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The path that routes are matched on: without the query, dot segments resolved, slashes merged,
/// and unreserved characters decoded (RFC 3986 6.2.2). `%2F` stays encoded. The backend gets the
/// path as received. `storage` holds the result where it differs from the input. Errors:
/// bad_request for a broken encoding, for `%00`, and for a path that climbs above the root.
Result<std::string_view> normalised_path(std::string_view target, std::string& storage);

/// A path pattern. A segment is text or `*`, which matches any one segment; a final `**` matches
/// any rest, also an empty one.
class PathPattern {
 public:
  explicit PathPattern(std::string_view pattern);
  bool matches(std::string_view path) const;

 private:
  std::vector<std::string> segments_;
  std::string exact_;  // if there is no wildcard
  bool open_ended_ = false;
  bool any_ = false;
};

class RouteIndex;

/// Tries a few routes one after another; many are looked up by host and path first. Immutable; any
/// thread.
class Router {
 public:
  explicit Router(const std::vector<RouteConfig>& routes);

  /// The index of the first route that matches.
  /// Errors: no_route; bad_request for a path that cannot be normalised.
  Result<std::size_t> route(const Request& request) const;

 private:
  struct Rule {
    std::string host;  // empty: any; "*.x": any name below x
    std::optional<PathPattern> path;
    std::vector<std::pair<std::string, std::string>> fields;
    std::vector<std::string> methods;
    std::vector<std::string> calls;  // "/package.Service/" or "/package.Service/Method"
    bool always = false;

    bool matches(const Request& request, std::string_view path_text) const;
  };

  std::optional<std::size_t> first_match(const Request& request, std::string_view path) const;

  std::vector<Rule> rules_;
  std::shared_ptr<const RouteIndex> index_;  // of many rules; else null
};

}  // namespace evenkeel
