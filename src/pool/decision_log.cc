#include "pool/decision_log.h"

#include <algorithm>
#include <numeric>

namespace evenkeel {
DecisionLog::DecisionLog(std::size_t capacity)
    : decisions_(capacity), names_(capacity), ended_(capacity), count_(capacity) {
  std::iota(ended_.begin(), ended_.end(), 0);
}

Decision* DecisionLog::begin(std::string_view name) {
  if (count_ == 0) return nullptr;
  const std::uint32_t index = ended_[first_];
  first_ = (first_ + 1) % ended_.size();
  --count_;
  Decision& decision = decisions_[index];
  decision = {};
  name = name.substr(0, Decision::max_name);
  std::ranges::copy(name, decision.name_bytes.begin());
  decision.name_size = name.size();
  names_[index] = hash_of(name);
  return &decision;
}

void DecisionLog::end(const Decision& decision) {
  ended_[(first_ + count_++) % ended_.size()] =
      static_cast<std::uint32_t>(&decision - decisions_.data());
}

}  // namespace evenkeel
