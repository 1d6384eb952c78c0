// Finds the route of a request by the conditions on its head, then on its body. The first match
// wins.
#pragma once

#include <cstdint>
#include <functional>
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

/// A path pattern, in the normal form of paths. A segment is text or `*`, which matches any one
/// segment; a final `**` matches any rest, also an empty one.
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

class BodyMatch;
class RouteIndex;

/// The route of a request, as far as its head tells.
struct RouteChoice {
  std::size_t index;
  /// True if the body decides whether this is the route, or a later one.
  bool needs_body;
};

/// Why no route takes a request.
struct RouteRefusal {
  /// no_route, method_not_allowed; bad_request: it names no model, or not as a string, or its path
  /// cannot be normalised; model_not_found: no route takes `model`.
  Error error;
  std::string allow = {};  ///< the methods that routes take where they do not take this one
  std::string model = {};
};

/// The first condition of a route that a request does not meet.
enum class Mismatch : std::uint8_t {
  none,
  host,
  path,
  header,
  query,
  client,
  listener,
  excluded,  ///< it meets the conditions in `not`
  method,
  body,
};

/// The stable word, such as "host".
std::string_view to_string(Mismatch mismatch);

/// The routes that a request may get while its body is being read, in order.
struct PossibleRoutes {
  std::vector<std::size_t> routes;
  bool open = false;  ///< which one depends on what the rest of the body says
};

/// Tries a few routes one after another; many are looked up by host and path first. Immutable; any
/// thread.
class Router {
 public:
  /// `listeners`: those whose trusted proxies name clients; outlives the router. Null: none.
  explicit Router(const std::vector<RouteConfig>& routes,
                  const std::vector<ListenerConfig>* listeners = nullptr);

  /// The first route that matches by the request's head. Conditions on the body hold for a request
  /// that has none to be read, but those on the model must hold for the one that its head names.
  /// Nothing: `refusal_of` says why.
  std::optional<RouteChoice> route(const Request& request) const;
  /// The first route from `first` on that matches, also by what `request.info.inference` says of
  /// the body. A request that was not inspected has none to be read.
  std::optional<std::size_t> route_inspected(const Request& request, std::size_t first = 0) const;
  /// The first route for which `accepts(index)` holds of those that match the request's head, and
  /// the model if it names one. Other conditions on the body do not count.
  std::optional<std::size_t> first_by_head(const Request& request,
                                           const std::function<bool(std::size_t)>& accepts) const;
  /// What is known of a request with `info.inference` whose body is being read.
  PossibleRoutes possible_routes(const Request& request) const;
  /// What each route lacks in the request, in the order in which they are looked at.
  std::vector<Mismatch> mismatches(const Request& request) const;
  /// REQUIRES: no route matches.
  RouteRefusal refusal_of(const Request& request) const;

 private:
  struct RareConditions;
  struct Rule {
    std::string host;  // empty: any; "*.x": any name below x
    std::optional<PathPattern> path;
    std::vector<std::pair<std::string, std::string>> fields;
    std::vector<std::string> methods;
    std::vector<std::string> calls;              // "/package.Service/" or "/package.Service/Method"
    std::shared_ptr<const RareConditions> rare;  // on the rest of the head; null: none
    std::shared_ptr<const BodyMatch> body;       // null: any
    bool always = false;
    bool has_details = false;  // conditions that are looked at last: `fields` and `rare`
    bool responds = false;     // itself, without a backend
    bool answers_preflights = false;

    bool matches(const Request& request, std::string_view path_text) const;
    bool has_host(const Request& request) const;
    bool has_path(const Request& request, std::string_view path_text) const;
    bool has_method(const Request& request) const;
    bool has_details_of(const Request& request, std::string_view path_text) const {
      return !has_details || mismatch_in_details(request, path_text) == Mismatch::none;
    }
    Mismatch mismatch_in_details(const Request& request, std::string_view path_text) const;
    bool has_fields(const Request& request) const;
  };
  static Rule rule_of(const RouteMatch& match, const std::vector<ListenerConfig>* listeners);

  template <class Matches>
  std::optional<std::size_t> lowest(const Request& request, std::string_view path,
                                    const Matches& matches, std::size_t first = 0) const;
  template <class BodyMatches>
  std::optional<std::size_t> first_match(const Request& request, const BodyMatches& body_matches,
                                         std::size_t first = 0) const;

  std::vector<Rule> rules_;
  std::shared_ptr<const RouteIndex> index_;  // of many rules; else null
};

}  // namespace evenkeel
