#include "picker/alias_table.h"

#include <numeric>

namespace evenkeel {

AliasTable::AliasTable(const std::vector<std::uint32_t>& weights) {
  const auto count = static_cast<std::uint32_t>(weights.size());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  slots_.resize(count);

  std::vector<double> share(count);  // 1: exactly one slot's worth
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  for (std::uint32_t index = 0; index < count; ++index) {
    share[index] = weights[index] * static_cast<double>(count) / sum;
    (share[index] < 1 ? small : large).push_back(index);
    slots_[index] = {.keep = ~std::uint32_t{0}, .alias = index};
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t poor = small.back();
    const std::uint32_t rich = large.back();
    small.pop_back();
    slots_[poor] = {.keep = static_cast<std::uint32_t>(share[poor] * 0x1p32), .alias = rich};
    share[rich] -= 1 - share[poor];
    if (share[rich] < 1) {
      large.pop_back();
      small.push_back(rich);
    }
  }
}

}  // namespace evenkeel
