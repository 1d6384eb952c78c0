// gRPC's health checks of an endpoint picker (grpc.health.v1).
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Answers Check, for the names of services that gateways and their probes use; NOT_FOUND for
/// others.
Task<Result<Response>> check_health(Request& request, Loop& loop, bool draining);

/// Answers Watch: the status now, and once more when the listener drains, which ends the stream.
/// `connections` outlives the response.
Task<Result<Response>> watch_health(Request& request, Loop& loop,
                                    const FrontendCallbacks& connections);

}  // namespace evenkeel
