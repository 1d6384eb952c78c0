#include "pool/subset_queue.h"

#include <algorithm>
#include <memory>

#include "evenkeel/pool/pool.h"
#include "pool/admission.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {

bool SubsetQueue::is_for_same_as(const SubsetQueue& other) const {
  if (&state == &other.state || subset == 0 || other.subset == 0) return subset == other.subset;
  return state.backend_set().subset(subset).spec() ==
         other.state.backend_set().subset(other.subset).spec();
}

void PoolState::make_queues(const PoolState* predecessor) {
  const auto make = [this](std::uint32_t subset, std::uint64_t mark) {
    queues_.push_back(std::make_unique<SubsetQueue>(*this, subset, mark, admission_->slots_rule()));
    if (scheduled_ == nullptr) return;
    auto& queue = scheduled_queues_.emplace_back(std::make_unique<SubsetQueue>(
        *this, subset, SubsetQueue::scheduled, scheduled_->scheduler()));
    for (std::size_t i = 0; i < backends().size(); ++i) {
      const bool has = subset == 0 || backend_set_->subset(subset).contains(i);
      if (has) queue->slots.add(scheduled_->slots()[i]);
    }
  };
  make(0, SubsetQueue::whole_pool);
  for (std::uint32_t number = 1; number <= backend_set_->subsets().size(); ++number) {
    const Subset& subset = backend_set_->subset(number);
    std::uint64_t mark = SubsetQueue::whole_pool;
    if (subset.spec().is_choice()) {  // no request waits for another one
      const std::uint32_t before =
          predecessor == nullptr ? 0 : predecessor->backend_set_->number_of(subset.spec());
      mark = before == 0 ? admission_->next_mark() : predecessor->queues_[before]->mark;
    }
    for (const BackendPtr& backend : subset.backends()) backend->slots().add_queue_mark(mark);
    make(number, mark);
  }
}

SubsetQueue& PoolState::queue_of(const Hint& hint) const {
  const auto& queues = schedules(hint) ? scheduled_queues_ : queues_;
  if (hint.pinned == nullptr) return *queues[hint.subset];
  const auto waits_in = [&](std::uint32_t number) {
    return number != 0 && backend_set_->subset(number).spec().is_choice() &&
           backend_set_->contains(number, *hint.pinned);
  };
  if (waits_in(hint.subset)) return *queues[hint.subset];
  for (std::uint32_t number = 1; number < queues.size(); ++number) {
    if (waits_in(number)) return *queues[number];
  }
  return *queues[0];
}

}  // namespace evenkeel
