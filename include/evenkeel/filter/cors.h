// Which pages of other origins may use a route, as its `cors` says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What a page asks for.
struct CorsRequest {
  std::string_view origin;   ///< empty: the request is no page's
  std::string_view method;   ///< of a preflight; empty: the request is none
  std::string_view headers;  ///< of a preflight: the fields that the page would set
};

/// The rules of one route. Immutable.
class CorsRules {
 public:
  explicit CorsRules(const CorsConfig& config);

  /// Replaces what the response says to pages by what the rules allow.
  void apply(const CorsRequest& asked, Response& response) const;

 private:
  bool allows(std::string_view origin) const;
  void answer_preflight(const CorsRequest& asked, Fields& fields) const;

  std::vector<std::string> origins_;  // globs
  bool any_origin_;
  bool credentials_;
  std::string methods_;  // empty: any
  std::string headers_;  // empty: any
  std::string max_age_;  // in seconds; empty: not told
};

/// Tells browsers which pages may read a route's answers, errors included, and answers preflights
/// on what the route allows.
class CorsFilter final : public Filter {
 public:
  /// The routes outlive the filter.
  explicit CorsFilter(const std::vector<RouteConfig>& routes);
  bool is_needed() const { return !rules_.empty(); }
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  ByRoute<CorsRules> rules_;
};

}  // namespace evenkeel
