// From what servers say they are to a file that balances over them.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/upstream/detector.h"

namespace evenkeel {

/// A server that was asked.
struct ProbedServer {
  std::string url;  ///< as it was given
  Address address;
  DetectionResult result;
};

struct DraftOptions {
  Address listen;
  Address admin;
  std::string picker;
};

/// One pool of all servers; or, when they cannot be one, why not and what to do.
struct Draft {
  Config config;                   ///< only meaningful without refusal
  std::vector<std::string> notes;  ///< about each server, and what may surprise; for people
  std::string refusal;             ///< lines for people; empty: none
};

/// - All servers form one pool, of the engine that they share, or generic when they differ:
/// requests
///   then still go to whoever is free, which two pools would not do.
/// - A server that is silent or says that it is loading is kept and taken for the same as the
///   others: those that load a model refuse connections meanwhile.
/// - The pool serves the models that every server lists. Without any such, it is refused: requests
///   are not routed by model.
///
/// REQUIRES: at least one server answered; none is `not_http` or `unresolved`.
Draft draft_config(const DraftOptions& options, const std::vector<ProbedServer>& servers);

}  // namespace evenkeel
