// Why a backend gets few of its pool's requests.
#pragma once

#include <string>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// What the pool's picker holds against a backend that gets less than half of an equal share of the
/// requests: "few requests: reported queue 40". Empty if it gets more, or nothing explains it. For
/// operators: computed on demand, and looks at some of the others. Thread: any.
std::string describe_few_requests(const PoolState& pool, const Backend& backend, Instant now);

}  // namespace evenkeel
