#include "pool/subset_queue.h"

#include <algorithm>
#include <memory>

#include "evenkeel/pool/pool.h"
#include "pool/admission.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {

bool SubsetQueue::is_for_same_as(const SubsetQueue& other) const {
  if (&state == &other.state || subset == 0 || other.subset == 0) return subset == other.subset;
  return state.subsets()[subset - 1].spec() == other.state.subsets()[other.subset - 1].spec();
}

void PoolState::make_queues(const PoolState* predecessor) {
  const auto make = [this](std::uint32_t subset, std::uint64_t mark) {
    queues_.push_back(std::make_unique<SubsetQueue>(*this, subset, mark, admission_->slots_rule()));
    if (scheduled_ == nullptr) return;
    auto& queue = scheduled_queues_.emplace_back(std::make_unique<SubsetQueue>(
        *this, subset, SubsetQueue::scheduled, scheduled_->scheduler()));
    for (std::size_t i = 0; i < backends_->size(); ++i) {
      const bool has = subset == 0 || subsets_[subset - 1].contains(i);
      if (has) queue->slots.add(scheduled_->slots()[i]);
    }
  };
  make(0, SubsetQueue::whole_pool);
  for (std::uint32_t number = 1; number <= subsets_.size(); ++number) {
    const Subset& subset = subsets_[number - 1];
    std::uint64_t mark = SubsetQueue::whole_pool;
    if (subset.spec().is_choice()) {  // no request waits for another one
      const std::uint32_t before =
          predecessor == nullptr ? 0 : predecessor->subset_number(subset.spec());
      mark = before == 0 ? admission_->next_mark() : predecessor->queues_[before]->mark;
    }
    for (const BackendPtr& backend : subset.backends()) backend->slots().add_queue_mark(mark);
    make(number, mark);
  }
}

SubsetQueue& PoolState::queue_of(const Hint& hint) const {
  const auto& queues = schedules(hint) ? scheduled_queues_ : queues_;
  if (hint.pinned == nullptr) return *queues[hint.subset];
  const auto found = index_.find(hint.pinned);
  if (found == index_.end()) return *queues[0];
  const auto waits_in = [&](const Subset& subset) {
    return subset.spec().is_choice() && subset.contains(found->second);
  };
  if (hint.subset != 0 && waits_in(subsets_[hint.subset - 1])) return *queues[hint.subset];
  for (std::size_t i = 0; i < subsets_.size(); ++i) {
    if (waits_in(subsets_[i])) return *queues[i + 1];
  }
  return *queues[0];
}

}  // namespace evenkeel
