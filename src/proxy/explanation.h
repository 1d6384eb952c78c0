// What a client is told of where its request went, and why.
#pragma once

#include "evenkeel/http/message.h"
#include "evenkeel/pool/placed_request.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// True if the client asks why its request goes where it goes and may know of backends: it is
/// behind a trusted proxy, or `names_backends`: the pool names them to all.
bool wants_explanation(const Request& request, bool names_backends);

/// Adds the decision that has placed the request, if it was recorded.
void add_explanation(const PoolState& pool, const Lease& lease, const Request& request,
                     Response& response);

/// Notes the last decision on a request that no backend got; nothing if it did not reach the
/// scheduler. REQUIRES: `request.info.inference`.
void explain_refusal(const PoolState& pool, Request& request);

}  // namespace evenkeel
