// The backends of one version of a pool, and the subsets that requests may be for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/picker/picker.h"
#include "evenkeel/pool/subset.h"

namespace evenkeel {

/// All backends of a pool and its subsets. These have numbers, which Hint::subset and
/// Hint::session_subset name; 0 is the whole pool. Immutable.
///
/// Thread: any.
class BackendSet {
 public:
  /// `options`: of the pool's picker, with all its backends. `predecessor`: of the pool's previous
  /// version, or null.
  BackendSet(const PickerOptions& options, const std::vector<SubsetSpec>& subsets,
             const BackendSet* predecessor);

  const Backends& all() const { return *all_; }
  const std::vector<Subset>& subsets() const { return subsets_; }
  /// REQUIRES: `number` is not 0.
  const Subset& subset(std::uint32_t number) const { return subsets_[number - 1]; }
  /// Returns 0 for the whole pool, and for what is none of the subsets.
  std::uint32_t number_of(const SubsetSpec& subset) const;
  /// The number of a subset in another version. Nothing: that has none of these labels.
  std::optional<std::uint32_t> number_in(const BackendSet& other, std::uint32_t number) const;
  /// The backends of a subset, or all.
  const Backends& of(std::uint32_t number) const {
    return number == 0 ? *all_ : subset(number).backends();
  }
  /// REQUIRES: the backend is one of the pool's.
  bool contains(std::uint32_t number, const SharedBackend& shared) const {
    return number == 0 || find(shared, number) != nullptr;
  }
  /// The backend with these counters, if it is in the subset; else null.
  const BackendPtr* find(const SharedBackend& shared, std::uint32_t number = 0) const;

 private:
  std::shared_ptr<const Backends> all_;
  std::unordered_map<const SharedBackend*, std::size_t> index_;
  std::vector<Subset> subsets_;
};

}  // namespace evenkeel
