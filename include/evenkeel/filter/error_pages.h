// The pages that people get instead of evenkeel's own errors, as `error_pages` of routes say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Immutable; any thread.
class ErrorPages {
 public:
  /// The routes and the texts outlive this object. REQUIRES: the texts are those of the routes.
  ErrorPages(const std::vector<RouteConfig>& routes, const ErrorPageTexts& texts);
  bool empty() const { return pages_.empty(); }

  /// Gives an error that evenkeel makes the page of its route, if the client names the page's type
  /// and likes it better than that of the error. `accept`: what it accepts. Other responses stay,
  /// and so do the status and the fields that are not about the content.
  void apply(const Request& request, std::string_view accept, Response& response) const;

 private:
  struct Page {
    const std::vector<int>& status;
    const std::string& content_type;
    const std::string& text;
  };

  ByRoute<std::vector<Page>> pages_;
};

}  // namespace evenkeel
