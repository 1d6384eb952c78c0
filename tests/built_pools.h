// Builds the pools of a configuration as a daemon does that starts.
#pragma once

#include <memory>

#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// REQUIRES: every name has an address.
inline Result<std::shared_ptr<const PoolSet>> build_pools(const Config& config) {
  const auto find = [](const Address& at) { return *resolve(at.host, at.port); };
  return PoolSet::build(config, {.find = find, .weights = {}, .drained = {}, .ids = {}});
}

}  // namespace evenkeel
