#include "evenkeel/pool/backend_set.h"

#include <algorithm>
#include <cassert>

namespace evenkeel {

BackendSet::BackendSet(const PickerOptions& options, const std::vector<SubsetSpec>& subsets,
                       const BackendSet* predecessor)
    : all_(options.backends) {
  for (const BackendPtr& backend : *all_) index_.emplace(&backend->shared(), index_.size());
  assert(index_.size() == all_->size());
  subsets_.reserve(subsets.size());
  for (const SubsetSpec& subset : subsets) {
    const std::uint32_t before = predecessor == nullptr ? 0 : predecessor->number_of(subset);
    subsets_.emplace_back(subset, options, before == 0 ? nullptr : &predecessor->subset(before));
  }
}

std::uint32_t BackendSet::number_of(const SubsetSpec& subset) const {
  const auto found = std::ranges::find(subsets_, subset, &Subset::spec);
  return found == subsets_.end() ? 0 : static_cast<std::uint32_t>(found - subsets_.begin()) + 1;
}

std::optional<std::uint32_t> BackendSet::number_in(const BackendSet& other,
                                                   std::uint32_t number) const {
  if (number == 0) return 0;
  const std::uint32_t found = other.number_of(subset(number).spec());
  return found == 0 ? std::nullopt : std::optional(found);
}

const BackendPtr* BackendSet::find(const SharedBackend& shared, std::uint32_t number) const {
  const auto found = index_.find(&shared);
  if (found == index_.end()) return nullptr;
  if (number != 0 && !subset(number).contains(found->second)) return nullptr;
  return &(*all_)[found->second];
}

}  // namespace evenkeel
