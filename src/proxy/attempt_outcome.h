// What an attempt says of its backend.
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/backend/backend.h"
#include "evenkeel/backend/outcome.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// True if the outcome is a refusal or a failure: it counts against the backend.
inline bool counts_against_backend(AttemptOutcome outcome) {
  return outcome == AttemptOutcome::overloaded || outcome == AttemptOutcome::failed;
}

/// What the head of a response says. A gRPC call whose head has its status (trailers-only) counts
/// by that. A success is one only when the body has ended.
AttemptResult classify_head(const Request& request, const Response& response);

/// A gRPC call that ended with this status, as the HTTP status that stands for it.
AttemptResult classify_grpc(std::uint8_t status);

}  // namespace evenkeel
