#include "picker/candidates.h"

#include <algorithm>
#include <utility>

namespace evenkeel {

Candidates::Candidates(std::shared_ptr<const Backends> backends, double memory_guard)
    : backends_(std::move(backends)), memory_guard_(memory_guard) {
  entries_.reserve(backends_->size());
  for (const auto& backend : *backends_) {
    entries_.push_back(
        {.shared = &backend->shared(), .weight = std::max(backend->spec().config.weight, 1u)});
  }
}

bool Candidates::all_deprioritized(const Hint& hint) const {
  for (std::uint32_t index = 0; index < size(); ++index) {
    if (in_rotation(index) && !deprioritized(index, hint.now) && !excluded(index, hint))
      return false;
  }
  return true;
}

const BackendPtr* CandidatePicker::pick(const Hint& hint) {
  std::uint32_t chosen = choose(Eligible(candidates_, hint, false));
  if (chosen == none && candidates_.all_deprioritized(hint)) [[unlikely]]
    chosen = choose(Eligible(candidates_, hint, true));
  return chosen == none ? nullptr : &candidates_[chosen];
}

std::uint32_t CandidatePicker::least_loaded(const Eligible& eligible) {
  std::uint32_t best = none;
  std::uint32_t ties = 0;
  for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
    if (!eligible(index)) continue;
    const int order = best == none ? -1 : compare_load(index, best);
    if (order > 0) continue;
    ties = order < 0 ? 1 : ties + 1;
    if (ties == 1 || rng_.below(ties) == 0) best = index;
  }
  return best;
}

int CandidatePicker::compare_load(std::uint32_t a, std::uint32_t b) const {
  const auto load_a = (std::uint64_t{candidates_.in_flight(a)} + 1) * candidates_.weight(b);
  const auto load_b = (std::uint64_t{candidates_.in_flight(b)} + 1) * candidates_.weight(a);
  return load_a < load_b ? -1 : load_a > load_b ? 1 : 0;
}

}  // namespace evenkeel
