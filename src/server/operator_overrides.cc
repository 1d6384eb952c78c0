#include "server/operator_overrides.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "evenkeel/state/saved_state.h"

namespace evenkeel {
namespace {

/// The `host:port` in the file of the backend with this id.
std::string configured_address(const std::string& id) { return id.substr(0, id.find('@')); }

/// The configured backend that an id belongs to: "host:port", or "host:port@address" for one of
/// several servers behind a name. Null: there is none.
const BackendConfig* find_backend(const Config& config, const std::string& pool_name,
                                  const std::string& id) {
  const auto pool = std::find_if(config.pools.begin(), config.pools.end(),
                                 [&](const PoolConfig& each) { return each.name == pool_name; });
  if (pool == config.pools.end()) return nullptr;
  const std::string address = configured_address(id);
  const auto backend =
      std::find_if(pool->backends.begin(), pool->backends.end(),
                   [&](const BackendConfig& each) { return to_string(each.address) == address; });
  return backend == pool->backends.end() ? nullptr : &*backend;
}

std::uint32_t configured_weight(const Config& config, const std::string& pool,
                                const std::string& id) {
  const BackendConfig* backend = find_backend(config, pool, id);
  return backend == nullptr ? 0 : backend->weight;
}

/// True if the pool may get backends that the file does not name.
bool discovers(const Config& config, const std::string& pool_name) {
  return std::ranges::any_of(config.pools, [&](const PoolConfig& pool) {
    return pool.name == pool_name && pool.discover;
  });
}

/// The id that a process which finds the same servers gives to this one. The servers that a name
/// stands for are next to each other.
std::string usual_id(const std::vector<PoolSet::ResolvedBackend>& servers, std::size_t number) {
  const PoolSet::ResolvedBackend& server = servers[number];
  const auto has_its_name = [&](std::size_t other) {
    return other < servers.size() && servers[other].config.address == server.config.address;
  };
  const bool several = has_its_name(number + 1) || (number > 0 && has_its_name(number - 1));
  const std::string address = to_string(server.config.address);
  return several ? address + "@" + server.addresses.front().host() : address;
}

}  // namespace

SavedState OperatorOverrides::save(const PoolSet& pool_set, const Config& config) {
  record_drained(pool_set, config);
  SavedState state{.drained = drained_, .addresses = addresses_of_names(pool_set)};
  for (const auto& [key, end] : drain_ends_)
    state.drain_ends[key] = std::chrono::time_point_cast<std::chrono::milliseconds>(end);
  for (const auto& [key, weight] : weights_)
    state.weights[key] = {weight, configured_weight(config, key.first, key.second)};
  return state;
}

std::map<OperatorOverrides::Key, std::string> OperatorOverrides::addresses_of_names(
    const PoolSet& pool_set) const {
  std::map<Key, std::string> addresses;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (std::size_t i = 0; i < pool.backends.size(); ++i) {
      const PoolSet::ResolvedBackend& resolved = pool.backends[i];
      if (resolved.addresses.empty()) continue;
      const Endpoint& address = resolved.addresses.front();
      if (address.host() == resolved.config.address.host) continue;
      const Key key(pool.state->config().name, pool.state->backends()[i]->id());
      const bool is_set = drained_.contains(key) || weights_.contains(key);
      if (is_set || key.second != usual_id(pool.backends, i)) addresses[key] = address.text();
    }
  }
  return addresses;
}

void OperatorOverrides::restore(SavedState state, const Config& config) {
  drained_ = std::move(state.drained);
  for (const Key& key : drained_) {
    const bool known = find_backend(config, key.first, key.second) != nullptr;
    if (!known && discovers(config, key.first)) awaited_.insert(key);
  }
  drain_ends_.insert(state.drain_ends.begin(), state.drain_ends.end());
  for (const auto& [key, address] : state.addresses)
    ids_[{key.first, configured_address(key.second), address}] = key.second;
  for (const auto& [key, weight] : state.weights) {
    const std::uint32_t configured = configured_weight(config, key.first, key.second);
    const bool is_found = configured == 0 && discovers(config, key.first);  // or will be
    const bool unchanged = is_found || weight.configured == configured;
    if (unchanged && weight.weight > 0) weights_[key] = weight.weight;
  }
}

OperatorOverrides::Weights OperatorOverrides::weights_with(const std::string& pool,
                                                           const std::string& backend,
                                                           std::uint32_t weight) const {
  Weights weights = weights_;
  weights[{pool, backend}] = weight;
  return weights;
}

OperatorOverrides::Weights OperatorOverrides::weights_for(const Config& next,
                                                          const Config& current) const {
  Weights weights = weights_;
  std::erase_if(weights, [&](const auto& entry) {
    const auto& [pool, id] = entry.first;
    return configured_weight(current, pool, id) != configured_weight(next, pool, id);
  });
  return weights;
}

void OperatorOverrides::record_drained(const PoolSet& pool_set, const Config& config) {
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      const std::pair key(pool.state->config().name, backend->id());
      if (backend->state().is_out(OutOfRotation::draining)) {
        drained_.insert(key);
      } else {
        drained_.erase(key);
      }
    }
  }
  const auto is_known = [&](const auto& key) {
    return find_backend(config, key.first, key.second) != nullptr;
  };
  std::erase_if(awaited_, is_known);
  std::erase_if(drained_,
                [&](const auto& key) { return !is_known(key) && !awaited_.contains(key); });
  std::erase_if(drain_ends_, [&](const auto& each) { return !drained_.contains(each.first); });
}

void OperatorOverrides::set_drain_end(const std::string& pool, const std::string& backend,
                                      std::optional<std::chrono::system_clock::time_point> end) {
  if (end) {
    drain_ends_[{pool, backend}] = *end;
  } else {
    drain_ends_.erase({pool, backend});
  }
}

std::vector<OperatorOverrides::Key> OperatorOverrides::end_drains(
    const PoolSet& pool_set, std::chrono::system_clock::time_point now) {
  std::vector<Key> ended;
  const auto is_over = [now](const auto& each) { return each.second <= now; };
  if (std::ranges::none_of(drain_ends_, is_over)) return ended;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      const auto end = drain_ends_.find({pool.state->config().name, backend->id()});
      if (end == drain_ends_.end() || !is_over(*end)) continue;
      if (backend->state().is_out(OutOfRotation::draining)) ended.push_back(end->first);
      backend->put_back(OutOfRotation::draining);
      drained_.erase(end->first);
      drain_ends_.erase(end);
    }
  }
  // Those that DNS does not know now stay until it does: a change that is being built drains them.
  return ended;
}

OperatorOverrides::Drained OperatorOverrides::drained_outside(const PoolSet& pool_set) const {
  Drained drained = drained_;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      drained.erase({pool.state->config().name, backend->id()});
    }
  }
  return drained;
}

}  // namespace evenkeel
