// Where a route sends its clients.
#pragma once

#include <cstddef>
#include <string>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The `redirect` of one route. Immutable.
class Redirect {
 public:
  /// REQUIRES: the route has one.
  explicit Redirect(const RouteConfig& route);

  /// The answer to a request of the route. What comes of the request is encoded: it cannot begin
  /// another host or another field. Errors: bad_request, for a client that names no host where its
  /// host is needed.
  Result<Response> answer(const Request& request) const;

 private:
  std::string before_host_;  // "https://" where the client's host follows; else empty
  std::string base_;         // what follows the host, or all
  int status_;
  std::size_t segments_ = 0;  // of the path, before its rest
  bool keeps_rest_;
  bool keeps_query_;
};

}  // namespace evenkeel
