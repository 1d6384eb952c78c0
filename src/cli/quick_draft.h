// Drafts a configuration that balances over servers, from their engines and models.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/upstream/detector.h"

namespace evenkeel {

/// A server and what probing it found.
struct DetectedServer {
  std::string url;  ///< as given
  Address address;
  DetectionResult result;
};

struct DraftOptions {
  Address listen;
  Address admin;
  std::string picker;
};

struct Draft {
  Config config;
  std::vector<std::string> notes;  ///< for people: what was found, and warnings
};

/// - Servers that list the same models form one pool, which gets every request.
/// - Otherwise each model goes to a pool of all servers that list it, by a route with
///   `match.model`. Models that the same servers list share a pool, so a server with models that
///   only some of the others have is in several pools.
/// - The engine of a pool is that of its servers, or `auto` if they differ.
/// - A server that does not answer, says that it is loading, or lists no models may have any of
///   the models: servers refuse connections while they load one. It is in every pool; where there
///   are several, health checks take it out of rotation in those whose models it does not list.
///
/// REQUIRES: at least one server answered; none is `not_http` or `unresolved`.
Draft draft_config(const DraftOptions& options, const std::vector<DetectedServer>& servers);

}  // namespace evenkeel
