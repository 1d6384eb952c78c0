// What follows from the settings of a health check.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/inference/engine.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

/// The kind of check for this spec, with `automatic` resolved; `off` if no check is known.
HealthCheckKind resolved_check_kind(const HealthCheckSpec& spec);

/// How long a check of one token may take.
Duration token_check_timeout(const HealthCheckSpec& spec);

/// How checks reach the server. They do not try HTTP/2 first where the protocol is unknown: there
/// is no time for that in a check.
ServerAccess health_check_access(ServerAccess access, const HealthCheckSpec& spec,
                                 HealthCheckKind kind);

}  // namespace evenkeel
