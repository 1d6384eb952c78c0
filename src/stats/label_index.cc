#include "evenkeel/stats/label_index.h"

#include <algorithm>

#include "evenkeel/base/log.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

namespace {

std::string backend_name(std::string_view pool, std::string_view backend) {
  std::string both(pool);
  both += '\n';  // no name in a configuration contains one
  both += backend;
  return both;
}

bool contains(const std::vector<std::uint32_t>& ascending, std::uint32_t index) {
  return std::binary_search(ascending.begin(), ascending.end(), index);
}

void insert(LabelIndex::IndexPairs& ascending, std::uint32_t first, std::uint32_t second) {
  const std::pair pair(first, second);
  const auto place = std::lower_bound(ascending.begin(), ascending.end(), pair);
  if (place == ascending.end() || *place != pair) ascending.insert(place, pair);
}

}  // namespace

std::uint32_t LabelIndex::listener(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return add(listeners_, name);
}

std::uint32_t LabelIndex::find_backend(std::string_view pool, std::string_view backend) const {
  const std::string name = backend_name(pool, backend);
  const std::lock_guard lock(mutex_);
  return backends_.find(name);
}

/// REQUIRES: the lock is held.
std::uint32_t LabelIndex::add(LabelNames& names, std::string_view name) {
  const std::uint32_t index = names.add(name);
  if (index == 0) log::limits.warning("too many names for metrics: one more is counted as none");
  return index;
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
  insert(route_pools_, route, pool);
}

void LabelIndex::add_model_to_pool(std::string_view model, std::uint32_t pool) {
  pin_model(model);
  const std::lock_guard lock(mutex_);
  if (const auto found = models_.find(model); found != models_.end())
    insert(pool_models_, pool, found->second);
}

std::vector<std::string> LabelIndex::used_names(const LabelNames& names) {
  std::vector<std::string> used(names.end());
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = names.used_name(i);
  return used;
}

LabelIndex::View LabelIndex::view() const {
  View view;
  const std::lock_guard lock(mutex_);
  view.pools = used_names(pools_);
  view.routes = used_names(routes_);
  view.listeners = used_names(listeners_);
  view.models.resize(models_.size() + 2);
  view.models[other_model] = "other";
  for (const auto& [name, at] : models_) view.models[at] = name;
  view.tenants = used_names(tenants_);
  const auto is_used = [](const std::string& name) { return !name.empty(); };
  if (std::ranges::none_of(view.tenants, is_used)) {
    view.tenants.clear();
  } else {
    view.tenants[other_tenant] = "other";
  }
  for (const auto& [route, pool] : route_pools_) {
    if (view.has_route(route) && view.has_pool(pool)) view.route_pools.emplace_back(route, pool);
  }
  for (const auto& [pool, model] : pool_models_) {
    if (view.has_pool(pool)) view.pool_models.emplace_back(pool, model);
  }
  return view;
}

void LabelIndex::release(const LabelUses& uses) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t index : uses.pools_) pools_.release(index);
  for (const std::uint32_t index : uses.routes_) routes_.release(index);
  for (const std::uint32_t index : uses.backends_) backends_.release(index);
  for (const std::uint32_t index : uses.tenants_) tenants_.release(index);
}

/// What is to be cleared, ascending.
ForgottenLabels LabelIndex::forget() {
  ForgottenLabels forgotten;
  const std::lock_guard lock(mutex_);
  pools_.forget(forgotten.pools);
  routes_.forget(forgotten.routes);
  backends_.forget(forgotten.backends);
  tenants_.forget(forgotten.tenants);
  std::ranges::sort(forgotten.pools);
  std::ranges::sort(forgotten.routes);
  if (forgotten.pools.empty() && forgotten.routes.empty()) return forgotten;
  std::erase_if(route_pools_, [&](const auto& pair) {
    return contains(forgotten.routes, pair.first) || contains(forgotten.pools, pair.second);
  });
  std::erase_if(pool_models_,
                [&](const auto& pair) { return contains(forgotten.pools, pair.first); });
  return forgotten;
}

/// Clears without `mutex_`: plans are built meanwhile.
void LabelIndex::clear(const ForgottenLabels& forgotten) {
  const std::lock_guard clearing(clearing_);
  if (metrics_ != nullptr) metrics_->clear(forgotten);
  const std::lock_guard lock(mutex_);
  pools_.reuse(forgotten.pools);
  routes_.reuse(forgotten.routes);
  backends_.reuse(forgotten.backends);
  tenants_.reuse(forgotten.tenants);
}

std::uint32_t LabelUses::pool(std::string_view name) { return use(index_.pools_, name, pools_); }

std::uint32_t LabelUses::route(std::string_view name) { return use(index_.routes_, name, routes_); }

std::uint32_t LabelUses::backend(std::string_view pool, std::string_view backend) {
  return use(index_.backends_, backend_name(pool, backend), backends_);
}

std::uint32_t LabelUses::tenant(std::string_view name) {
  const std::uint32_t index = use(index_.tenants_, name, tenants_);
  return index == 0 ? LabelIndex::other_tenant : index;
}

std::uint32_t LabelUses::use(LabelNames& names, std::string_view name,
                             std::vector<std::uint32_t>& used) {
  const std::lock_guard lock(index_.mutex_);
  const std::uint32_t index = index_.add(names, name);
  used.push_back(index);
  names.use(index);
  return index;
}

LabelUses::~LabelUses() {
  index_.release(*this);
  const ForgottenLabels forgotten = index_.forget();
  if (!forgotten.empty()) index_.clear(forgotten);
}

}  // namespace evenkeel
