// Asks servers what they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/address.h"
#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/fetch.h"

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

/// A GET of a path, over at the deadline.
using FetchPath = std::function<Task<Result<Fetched>>(std::string path, Instant deadline)>;

/// Asks one server the rounds of `probe_rounds`, those of a round at the same time. Over at the
/// deadline at the latest, with what was heard by then. What `ask` uses outlives the task.
Task<DetectionResult> detect(FetchPath fetch_path, Instant deadline);
/// The same, in the clear, each question over a connection of its own.
Task<DetectionResult> detect(Loop& loop, std::vector<Endpoint> addresses, std::string authority,
                             Instant deadline);

/// Asks many servers at the same time; `patience` is for each, from the moment when its name is
/// resolved. Findings stand in the order of the servers. Blocks.
std::vector<DetectionResult> detect_all(const std::vector<Address>& servers, Duration timeout);

}  // namespace evenkeel
