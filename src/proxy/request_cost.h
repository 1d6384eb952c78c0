// What a request to a model tells a scheduler.
#pragma once

#include "evenkeel/balance/scheduler.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// It generates text: its prompt and its output take an engine's time as the scheduler predicts it.
/// Engines compute others, such as embeddings, many at a time.
bool has_predicted_cost(const Request& request);

/// Its size, prefix, tenant and targets; a target that it names itself (`x-slo-ttft-ms`,
/// `x-slo-tpot-ms`) goes before its route's. Points into the request. REQUIRES: has_predicted_cost.
Arrival arrival_of(const Request& request);

}  // namespace evenkeel
