#include "evenkeel/upstream/subsets.h"

#include <algorithm>
#include <utility>

namespace evenkeel {

SubsetSpec subset_of(const RouteTarget& target) { return {.any_of = {target.labels}}; }

SubsetSpec session_subset_of(const RouteConfig& route, std::string_view pool) {
  SubsetSpec subset;
  for (const RouteTarget& target : route.targets) {
    if (target.pool == pool && target.weight > 0) subset.any_of.push_back(target.labels);
  }
  return subset;
}

std::unordered_map<std::string_view, std::vector<SubsetSpec>> subsets_of(const Config& config) {
  std::unordered_map<std::string_view, std::vector<SubsetSpec>> all;
  for (const RouteConfig& route : config.routes) {
    for (const RouteTarget& target : route.targets) {
      if (target.labels.empty()) continue;
      std::vector<SubsetSpec>& subsets = all[target.pool];
      for (auto subset : {subset_of(target), session_subset_of(route, target.pool)}) {
        if (subset.is_whole_pool() || std::ranges::find(subsets, subset) != subsets.end()) continue;
        subsets.push_back(std::move(subset));
      }
    }
  }
  return all;
}

}  // namespace evenkeel
