// Asks servers what they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/address.h"
#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {

/// What came of asking a server.
struct DetectionResult {
  enum class Outcome : std::uint8_t {
    answered,    ///< at least one question
    silent,      ///< refused, or no answer in time: it may still be loading its model
    not_http,    ///< it speaks, but not HTTP/1.1
    unresolved,  ///< its name has no address
  };
  Outcome outcome = Outcome::silent;
  EngineIdentity identity;  ///< when it answered
  bool conclusive =
      false;  ///< it has told something to all questions: what it does not show, it has not
  bool blocked_locally = false;  ///< some could not be asked, for want of something that is ours
  std::string reason;            ///< when it did not: why, for people
};

/// Sends the requests of `probe_rounds` to one server, those of a round at the same time. Ends at
/// the deadline, with the responses that are in by then.
Task<DetectionResult> detect(BackendClient& client, Instant deadline);
/// The same without TLS and API key.
Task<DetectionResult> detect(Loop& loop, std::vector<Endpoint> addresses, std::string authority,
                             Instant deadline);

/// Asks many servers at the same time; `patience` is for each, from the moment when its name is
/// resolved. Findings stand in the order of the servers. Blocks.
std::vector<DetectionResult> detect_all(const std::vector<Address>& servers, Duration timeout);

}  // namespace evenkeel
