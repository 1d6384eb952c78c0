// Redirects that lead to where the request was sent.
#pragma once

#include <string>
#include <string_view>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// The part of a URL with this authority, over http or https, that is behind it, "/" at least.
/// Empty: it is another URL.
std::string_view path_at(std::string_view authority, std::string_view url);

/// The target, with its query, that a response to a GET redirects to at the same origin: same
/// scheme, host and port. Empty: it does not.
std::string redirected_target(const Request& request, const Response& response);

/// "status 302, Location /login?...", for people: without the query, in which tokens may be.
std::string describe_status(int status, std::string_view location);

}  // namespace evenkeel
