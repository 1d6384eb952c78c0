// What a request to a model tells a scheduler.
#pragma once

#include "evenkeel/balance/scheduler.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Its size, prefix, tenant and targets; a target that it names itself (`x-slo-ttft-ms`,
/// `x-slo-tpot-ms`) goes before its route's. Points into the request. REQUIRES: it is inspected.
Arrival arrival_of(const Request& request);

}  // namespace evenkeel
