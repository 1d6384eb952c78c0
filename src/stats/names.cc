#include "evenkeel/stats/names.h"

#include <algorithm>

#include "evenkeel/base/log.h"
#include "evenkeel/stats/growing.h"

namespace evenkeel {
namespace {

void list(const std::map<std::string, std::uint32_t, std::less<>>& index,
          std::vector<std::string>& names) {
  names.resize(index.size() + 1);
  for (const auto& [name, at] : index) names[at] = name;
}

}  // namespace

std::uint32_t Names::pool(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(pools_, name);
}

std::uint32_t Names::route(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(routes_, name);
}

std::uint32_t Names::listener(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return index_of(listeners_, name);
}

std::uint32_t Names::backend(std::string_view pool, std::string_view backend) {
  std::string both(pool);
  both += '\n';  // stands in no name of a configuration
  both += backend;
  const std::lock_guard lock(mutex_);
  return index_of(backends_, both);
}

void Names::lead(std::uint32_t route, std::uint32_t pool) {
  const std::lock_guard lock(mutex_);
  const std::pair pair(route, pool);
  const auto place = std::lower_bound(leads_.begin(), leads_.end(), pair);
  if (place == leads_.end() || *place != pair) leads_.insert(place, pair);
}

Names::View Names::view() const {
  View view;
  const std::lock_guard lock(mutex_);
  list(pools_, view.pools);
  list(routes_, view.routes);
  list(listeners_, view.listeners);
  view.leads = leads_;
  return view;
}

std::uint32_t Names::index_of(Index& index, std::string_view name) {
  if (const auto found = index.find(name); found != index.end()) return found->second;
  const auto next = static_cast<std::uint32_t>(index.size() + 1);
  if (next >= Growing<int>::limit) {
    log::warning("too many names for metrics: one more is counted as none");
    return 0;
  }
  index.emplace(name, next);
  return next;
}

}  // namespace evenkeel
