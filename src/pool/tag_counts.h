// How many sessions each backend has, while a table of millions is looked at.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/pool/affinity_table.h"

namespace evenkeel {

/// Counts by tag with a map for what does not fit its slots: the map alone would take half of the
/// time of a look at all sessions.
class TagCounts {
 public:
  using Totals = std::unordered_map<AffinityTable::Tag, std::uint64_t>;

  void add(AffinityTable::Tag tag) {
    Count& count = counts_[tag / 2 % counts_.size()];  // bits of a hash
    if (count.tag != tag) [[unlikely]] {
      flush(count);
      count.tag = tag;
    }
    ++count.sessions;
  }
  Totals totals() {
    for (Count& each : counts_) flush(each);
    return std::move(totals_);
  }

 private:
  struct Count {
    AffinityTable::Tag tag = AffinityTable::none;
    std::uint64_t sessions = 0;
  };
  void flush(Count& count) {
    if (count.sessions > 0) totals_[count.tag] += std::exchange(count.sessions, 0);
  }

  std::vector<Count> counts_ = std::vector<Count>(4096);
  Totals totals_;
};

}  // namespace evenkeel
