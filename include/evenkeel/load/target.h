// Where a load goes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// A server that speaks OpenAI's API.
struct LoadTarget {
  std::string authority;            ///< "host:port", as the URL has it
  std::string completions_path;     ///< "/v1/chat/completions", below the URL's base
  std::string models_path;          ///< "/v1/models", below the URL's base
  std::vector<Endpoint> endpoints;  ///< every address of the host
};

/// Reads "http://host[:port][/base]" and resolves the host. A base that ends in "/v1" or in
/// "/chat/completions" is understood. Errors are for people. Blocks.
Result<LoadTarget> resolve_target(std::string_view url);

/// Headers as the user gave them: names and values.
using LoadHeaders = std::vector<std::pair<std::string, std::string>>;

/// Puts the user's headers in the place of ours; `host` is the authority. They outlive the request.
void set_headers(const LoadHeaders& headers, Request& request);

/// The first model that the server lists; empty where it lists none or cannot be reached in time.
/// Blocks, for 5 seconds per address at most.
std::string discover_model(const LoadTarget& target, const LoadHeaders& headers);

}  // namespace evenkeel
