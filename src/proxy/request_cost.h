// What a request to a model tells a scheduler.
#pragma once

#include <cstdint>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/scheduler/request_cost.h"

namespace evenkeel {

/// True if the request generates text: its prompt and its output take an engine's time as the
/// scheduler predicts it. Engines compute others, such as embeddings, many at a time.
bool has_predicted_cost(const Request& request);

/// The request's size, prefix, model, tenant and targets, but nothing of a record except its name.
/// A request may name a shorter TTFT than the file (`x-slo-ttft-ms`) and a longer TPOT
/// (`x-slo-tpot-ms`); where the file names none, any. Points into the request. `model`: hash_of the
/// name that the pool's backends get instead of the client's; 0: they get that. REQUIRES:
/// has_predicted_cost.
RequestCost cost_of(const Request& request, const SloConfig& slo, std::uint64_t model = 0);

}  // namespace evenkeel
