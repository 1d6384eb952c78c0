#include "evenkeel/upstream/monitor_spec.h"

#include <cstddef>

#include "evenkeel/inference/engine.h"

namespace evenkeel {
namespace {

/// The models of the pool as its backends call them.
std::vector<std::string> served_models(const PoolConfig& pool) {
  std::vector<std::string> models = pool.models;
  for (std::string& model : models) {
    const auto served = pool.model_names.find(model);
    if (served != pool.model_names.end()) model = served->second;
  }
  return models;
}

MonitorSpec spec_of(const PoolConfig& pool, const PoolSet::PoolEntry& pool_entry,
                    std::size_t index) {
  const PoolSet::ResolvedBackend& resolved = pool_entry.backends[index];
  return {.pool = pool.name,
          .backend = pool_entry.state->backends()[index],
          .health = {.config = pool.health,
                     .engine = pool.engine,
                     .models = served_models(pool),
                     .protocol = pool.protocol,
                     .engine_is_auto = pool.engine == undetected_engine},
          .metrics = {.config = pool.metrics,
                      .engine = pool.engine,
                      .url = resolved.config.metrics,
                      .gpus = resolved.config.gpus},
          .access = {.addresses = resolved.addresses,
                     .authority = resolved.host.own,
                     .authority_is_text = resolved.host.is_text,
                     .key = resolved.key,
                     .links = link_options_of(pool, resolved.config, pool_entry.tls)},
          .lists_adapters = pool.picker.has_scheduler()};
}

}  // namespace

std::vector<MonitorSpec> monitor_specs(const Config& config, const PoolSet& pool_set) {
  std::vector<MonitorSpec> specs;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolSet::PoolEntry& pool_entry = pool_set.pools()[i];
    for (std::size_t j = 0; j < pool_entry.backends.size(); ++j) {
      specs.push_back(spec_of(config.pools[i], pool_entry, j));
    }
  }
  return specs;
}

}  // namespace evenkeel
