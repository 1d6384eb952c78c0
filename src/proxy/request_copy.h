// Copies a request that goes on without its client.
#pragma once

#include "evenkeel/http/message.h"

namespace evenkeel {

/// Copies what the request points to into the copy's own memory, except what its plan owns, which
/// the copy keeps. It has no body yet, no client to answer, and nothing of its answer.
/// REQUIRES: `to` is empty.
void copy_request(const Request& from, Request& to);

}  // namespace evenkeel
