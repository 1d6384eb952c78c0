#include "balance/queue_section.h"

#include <memory>

#include "balance/request_queue.h"
#include "evenkeel/balance/pool.h"

namespace evenkeel {

bool QueueSection::is_for_same_as(const QueueSection& other) const {
  if (&state == &other.state || subset == 0 || other.subset == 0) return subset == other.subset;
  return state.subsets()[subset - 1].spec() == other.state.subsets()[other.subset - 1].spec();
}

void PoolState::make_queue_sections(const PoolState* predecessor) {
  sections_.push_back(std::make_unique<QueueSection>(*this, 0, QueueSection::whole_pool));
  for (const Subset& subset : subsets_) {
    std::uint64_t mark = QueueSection::whole_pool;
    if (subset.spec().is_choice()) {  // no request waits for another one
      const std::uint32_t before =
          predecessor == nullptr ? 0 : predecessor->subset_number(subset.spec());
      mark = before == 0 ? request_queue_->next_mark() : predecessor->sections_[before]->mark;
    }
    for (const BackendPtr& backend : subset.backends()) backend->load().add_queue_mark(mark);
    const auto number = static_cast<std::uint32_t>(sections_.size());
    sections_.push_back(std::make_unique<QueueSection>(*this, number, mark));
  }
}

QueueSection& PoolState::queue_section(const Hint& hint) const {
  if (hint.pinned == nullptr) return *sections_[hint.subset];
  const auto found = index_.find(hint.pinned);
  if (found == index_.end()) return *sections_[0];
  const auto waits_in = [&](const Subset& subset) {
    return subset.spec().is_choice() && subset.contains(found->second);
  };
  if (hint.subset != 0 && waits_in(subsets_[hint.subset - 1])) return *sections_[hint.subset];
  for (std::size_t i = 0; i < subsets_.size(); ++i) {
    if (waits_in(subsets_[i])) return *sections_[i + 1];
  }
  return *sections_[0];
}

}  // namespace evenkeel
