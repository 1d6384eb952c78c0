// Makes a request one of a pool, or of another pool.
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Assigns the pool to a request that has begun to be counted. Any backend of the pool may get it.
/// `pool` outlives the request.
inline void assign_pool(RequestIdentity& identity, std::string_view pool, std::uint32_t pool_index,
                        WorkerMetrics& worker_metrics) {
  worker_metrics.pool(identity.pool_index).in_flight.remove();
  worker_metrics.pool(pool_index).in_flight.add();
  identity.pool = pool;
  identity.pool_index = pool_index;
  identity.subset = identity.session_subset = 0;
}

}  // namespace evenkeel
