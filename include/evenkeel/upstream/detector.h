// Detects which engine a server runs.
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

/// How one round of detection ended.
struct DetectionResult {
  enum class Outcome : std::uint8_t {
    answered,    ///< at least one request
    silent,      ///< refused, or no response in time: it may still be loading its model
    not_http,    ///< it responds, but not in HTTP/1.1
    unresolved,  ///< its name has no address
  };
  Outcome outcome = Outcome::silent;
  EngineIdentity identity;  ///< of a server that answered
  bool conclusive =
      false;  ///< every request got a proper response: what it does not show, it does not have
  bool blocked_locally = false;  ///< this process could not send some requests
  std::string reason;            ///< why there was no answer
};

/// Sends the requests of `detection_rounds` to one server, those of a round at the same time. Ends
/// at the deadline, with the responses that are in by then.
Task<DetectionResult> detect(BackendClient& client, Instant deadline);
/// The same without TLS and API key.
Task<DetectionResult> detect(Loop& loop, std::vector<Endpoint> addresses, std::string authority,
                             Instant deadline);

/// Detects many servers at the same time. `timeout`: for each, once its name is resolved. Results
/// are in the order of the servers. Blocks.
std::vector<DetectionResult> detect_all(const std::vector<Address>& servers, Duration timeout);

}  // namespace evenkeel
