#include "evenkeel/stats/label_index.h"

#include <algorithm>

#include "evenkeel/base/log.h"
#include "evenkeel/stats/chunked_array.h"

namespace evenkeel {

void LabelIndex::list(const Index& index, const UseCounts& uses, std::vector<std::string>& names) {
  names.resize(index.size() + 1);
  for (const auto& [name, at] : index) {
    if (in_use(uses, at)) names[at] = name;
  }
}

std::uint32_t LabelIndex::pool(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(pools_, name);
}

std::uint32_t LabelIndex::route(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(routes_, name);
}

std::uint32_t LabelIndex::listener(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(listeners_, name);
}

std::uint32_t LabelIndex::backend(std::string_view pool, std::string_view backend) {
  std::string both(pool);
  both += '\n';  // no name in a configuration contains one
  both += backend;
  const std::lock_guard lock(mutex_);
  return index_of(backends_, both);
}

std::uint32_t LabelIndex::model(std::string_view name) {
  if (name.empty()) return 0;
  const std::lock_guard lock(mutex_);
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  const bool shown =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!shown || unpinned_models_ >= max_models) return other_model;
  ++unpinned_models_;
  return add_model(name);
}

void LabelIndex::pin_model(std::string_view name) {
  if (name.empty()) return;
  const std::lock_guard lock(mutex_);
  if (!models_.contains(name)) add_model(name);
}

/// Indices 0 and 1 are taken: no model, and other ones. REQUIRES: the lock is held.
std::uint32_t LabelIndex::add_model(std::string_view name) {
  const auto next = static_cast<std::uint32_t>(models_.size() + 2);
  if (next >= ChunkedArray<int>::limit) return other_model;
  models_.emplace(name, next);
  models_version_.fetch_add(1, std::memory_order_release);
  return next;
}

/// Indices 0 and 1 are taken: no tenants, and none of them. REQUIRES: the lock is held.
std::uint32_t LabelIndex::add_tenant(std::string_view name) {
  const auto next = static_cast<std::uint32_t>(tenants_.size() + 2);
  if (const auto found = tenants_.find(name); found != tenants_.end()) return found->second;
  if (next >= ChunkedArray<int>::limit) return other_tenant;
  tenants_.emplace(name, next);
  return next;
}

std::map<std::string, std::uint32_t, std::less<>> LabelIndex::models() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

bool LabelIndex::models_full() const {
  const std::lock_guard lock(mutex_);
  return unpinned_models_ >= max_models;
}

void LabelIndex::add_route_to_pool(std::uint32_t route, std::uint32_t pool) {
  const std::lock_guard lock(mutex_);
  const std::pair pair(route, pool);
  const auto place = std::lower_bound(route_pools_.begin(), route_pools_.end(), pair);
  if (place == route_pools_.end() || *place != pair) route_pools_.insert(place, pair);
}

LabelIndex::View LabelIndex::view() const {
  View view;
  const std::lock_guard lock(mutex_);
  list(pools_, pool_uses_, view.pools);
  list(routes_, route_uses_, view.routes);
  list(listeners_, {}, view.listeners);
  view.models.resize(models_.size() + 2);
  view.models[other_model] = "other";
  for (const auto& [name, at] : models_) view.models[at] = name;
  for (const auto& [name, at] : tenants_) {
    if (!in_use(tenant_uses_, at)) continue;
    view.tenants.resize(tenants_.size() + 2);
    view.tenants[other_tenant] = "other";
    view.tenants[at] = name;
  }
  for (const auto& [route, pool] : route_pools_) {
    if (view.has_route(route) && view.has_pool(pool)) view.route_pools.emplace_back(route, pool);
  }
  return view;
}

std::uint32_t LabelUses::pool(std::string_view name) {
  const std::lock_guard lock(index_.mutex_);
  const std::uint32_t index = LabelIndex::index_of(index_.pools_, name);
  ++index_.pool_uses_[index];
  return pools_.emplace_back(index);
}

std::uint32_t LabelUses::route(std::string_view name) {
  const std::lock_guard lock(index_.mutex_);
  const std::uint32_t index = LabelIndex::index_of(index_.routes_, name);
  ++index_.route_uses_[index];
  return routes_.emplace_back(index);
}

std::uint32_t LabelUses::tenant(std::string_view name) {
  const std::lock_guard lock(index_.mutex_);
  const std::uint32_t index = index_.add_tenant(name);
  ++index_.tenant_uses_[index];
  return tenants_.emplace_back(index);
}

LabelUses::~LabelUses() {
  const std::lock_guard lock(index_.mutex_);
  for (const std::uint32_t index : pools_) --index_.pool_uses_[index];
  for (const std::uint32_t index : routes_) --index_.route_uses_[index];
  for (const std::uint32_t index : tenants_) --index_.tenant_uses_[index];
}

std::uint32_t LabelIndex::index_of(Index& index, std::string_view name) {
  if (const auto found = index.find(name); found != index.end()) return found->second;
  const auto next = static_cast<std::uint32_t>(index.size() + 1);
  if (next >= ChunkedArray<int>::limit) {
    log::warning("too many names for metrics: one more is counted as none");
    return 0;
  }
  index.emplace(name, next);
  return next;
}

}  // namespace evenkeel
