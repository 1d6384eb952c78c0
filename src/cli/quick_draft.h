// From the engines and models of servers to a configuration that balances over them.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/upstream/detector.h"

namespace evenkeel {

/// A server and what probing it found.
struct ProbedServer {
  std::string url;  ///< as given
  Address address;
  DetectionResult result;
};

struct DraftOptions {
  Address listen;
  Address admin;
  std::string picker;
};

/// One pool of all servers, or why they cannot be one pool and what to do.
struct Draft {
  Config config;                   ///< only meaningful if `refusal` is empty
  std::vector<std::string> notes;  ///< for people: one per server, and warnings
  std::string refusal;             ///< for people; empty: none
};

/// - All servers form one pool, of their common engine, or of `generic` if they differ: requests
///   then still go to any free server, which two pools would not allow.
/// - A server that does not answer, or says that it is loading, joins the pool as one of the same
///   kind: servers refuse connections while they load a model.
/// - The pool serves the models that every server lists. Without a common model it is refused:
///   requests are not routed by model.
///
/// REQUIRES: at least one server answered; none is `not_http` or `unresolved`.
Draft draft_config(const DraftOptions& options, const std::vector<ProbedServer>& servers);

}  // namespace evenkeel
