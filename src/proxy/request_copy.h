// Copies a request that goes on without its client, and takes over how the copy fared.
#pragma once

#include "evenkeel/http/message.h"

namespace evenkeel {

/// Copies what the request points to into the copy's own memory, except what its plan owns, which
/// the copy keeps. It has no body yet, no client to answer, and nothing of its answer.
/// REQUIRES: `to` is empty.
void copy_request(const Request& from, Request& to);

/// Makes what became of a copy that a backend got what became of the request: its backend, attempts
/// and times. What the request points to from then on may be of a plan that came later.
void adopt_outcome(RequestInfo& info, const RequestInfo& of_copy);

}  // namespace evenkeel
