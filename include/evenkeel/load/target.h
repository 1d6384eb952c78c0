// The server that a load is sent to.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// A server with OpenAI's API.
struct LoadTarget {
  std::string authority;            ///< "host:port", as in the URL
  std::string completions_path;     ///< "/v1/chat/completions", below the URL's base
  std::string models_path;          ///< "/v1/models", below the URL's base
  std::vector<Endpoint> endpoints;  ///< every address of the host
};

/// Reads "http://host[:port][/base]" and resolves the host. A base may end in "/v1" or
/// "/v1/chat/completions". Blocks. An error is a message for the user.
Result<LoadTarget> resolve_target(std::string_view url);

/// Names and values from --header.
using LoadHeaders = std::vector<std::pair<std::string, std::string>>;

/// Replaces our headers by the user's; `host` replaces the authority. `headers` outlive the
/// request.
void set_headers(const LoadHeaders& headers, Request& request);

/// The first model that the server lists; empty where it lists none or does not answer. Blocks for
/// at most 5 seconds per address.
std::string discover_model(const LoadTarget& target, const LoadHeaders& headers);

}  // namespace evenkeel
