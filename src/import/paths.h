// Redirections and rewritten paths of other files in our words.
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

/// What `proxy_pass http://host<uri>` in a location makes of paths: it replaces the location's own
/// by the URI. `RewriteConfig{}`: they stay. Nothing: `rewrite` of a route cannot say it.
std::optional<RewriteConfig> nginx_pass_rewrite(std::string_view location, bool is_exact,
                                                std::string_view uri);

/// `rewrite REGEX REPLACEMENT break` of nginx, which replaces the whole path. Nothing: `rewrite` of
/// a route cannot say it.
std::optional<RewriteConfig> nginx_rewrite(std::string_view regex, std::string_view replacement);

/// A regular expression of nginx, which may match a part, as `match.path_regex`, which matches all.
/// Nothing: RE2 does not have it.
std::optional<std::string> path_regex_of(std::string_view regex, bool ignores_case);

/// True if alternatives stand outside of parentheses.
bool has_alternatives(std::string_view regex);

}  // namespace evenkeel::import
