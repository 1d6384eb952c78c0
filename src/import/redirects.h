// Redirections of other files in our words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/config/config.h"

namespace evenkeel::import {

/// `return CODE URL` of nginx, for the requests of a route with this `match.path`. Nothing: the URL
/// has variables other than `$host`, `$http_host`, `$request_uri` and `$is_args$args`, or in other
/// places than ours.
std::optional<RedirectConfig> nginx_redirect(std::string_view url, int status,
                                             std::string_view path);

/// `redirect location URL` and `redirect prefix URL` of HAProxy; `code`: what follows that word;
/// `keeps_query` is a location's. Nothing: the URL is made of the request.
std::optional<RedirectConfig> haproxy_redirect(std::string_view kind, std::string_view url,
                                               int code, bool keeps_query, std::string_view path);

}  // namespace evenkeel::import
