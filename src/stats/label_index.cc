#include "evenkeel/stats/label_index.h"

#include <algorithm>

#include "evenkeel/base/log.h"
#include "evenkeel/stats/chunked_array.h"

namespace evenkeel {
namespace {

void list(const std::map<std::string, std::uint32_t, std::less<>>& index,
          std::vector<std::string>& names) {
  names.resize(index.size() + 1);
  for (const auto& [name, at] : index) names[at] = name;
}

}  // namespace

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

void LabelIndex::add_route_to_pool(std::uint32_t route, std::uint32_t pool) {
  const std::lock_guard lock(mutex_);
  const std::pair pair(route, pool);
  const auto place = std::lower_bound(route_pools_.begin(), route_pools_.end(), pair);
  if (place == route_pools_.end() || *place != pair) route_pools_.insert(place, pair);
}

LabelIndex::View LabelIndex::view() const {
  View view;
  const std::lock_guard lock(mutex_);
  list(pools_, view.pools);
  list(routes_, view.routes);
  list(listeners_, view.listeners);
  view.route_pools = route_pools_;
  return view;
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
