// Choosing the cheapest: of all in a small pool, of two drawn at random in a large one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "balance/alias_table.h"
#include "balance/candidates.h"
#include "balance/pickers.h"

namespace evenkeel {

/// A picker by cost: `Cost` is made from the candidates and gives `double operator()(index, now)`;
/// less is better, ties are broken at random.
///
/// Small pools (up to 32) are looked at whole. In larger ones two are drawn at random by weight and
/// the cheaper is taken: nearly as even (most load over the mean is ln ln n / ln 2 + O(1)), at a
/// constant cost, and workers who see figures a moment old do not all run to the same backend.
/// Source: Mitzenmacher, The power of two choices in randomized load balancing, 1996. Who is drawn
/// but not eligible is drawn again, a few times; only when that fails is everybody looked at.
template <class Cost>
class SampledPicker final : public CandidatePicker {
 public:
  SampledPicker(const PickerSetup& setup, std::shared_ptr<const AliasTable> by_weight,
                std::uint64_t seed)
      : CandidatePicker(setup, seed), by_weight_(std::move(by_weight)), cost_(candidates_) {}

 private:
  static constexpr std::uint32_t looked_at_whole = 32;
  static constexpr int most_draws = 16;

  std::uint32_t choose(const Eligible& eligible) override {
    if (candidates_.size() <= looked_at_whole) return cheapest(eligible);

    const Instant now = eligible.hint().now;
    std::uint32_t first = nobody;
    for (int draws = 0; draws < most_draws; ++draws) {
      const std::uint32_t drawn = by_weight_->draw(rng_);
      if (drawn == first || !eligible(drawn)) continue;
      if (first != nobody) return cost_(drawn, now) < cost_(first, now) ? drawn : first;
      first = drawn;
    }
    return first != nobody ? first : cheapest(eligible);
  }

  std::uint32_t cheapest(const Eligible& eligible) {
    const Instant now = eligible.hint().now;
    std::uint32_t best = nobody;
    double least = 0;
    std::uint32_t ties = 0;
    for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
      if (!eligible(index)) continue;
      const double cost = cost_(index, now);
      if (best != nobody && cost > least) continue;
      ties = best == nobody || cost < least ? 1 : ties + 1;
      if (ties == 1 || rng_.below(ties) == 0) {
        best = index;
        least = cost;
      }
    }
    return best;
  }

  std::shared_ptr<const AliasTable> by_weight_;
  Cost cost_;
};

template <class Cost>
PickerMaker sampled_picker_maker(PickerSetup setup) {
  std::vector<std::uint32_t> weights;
  for (const auto& backend : *setup.backends) {
    weights.push_back(std::max(backend->spec().weight, 1u));
  }
  auto by_weight = std::make_shared<const AliasTable>(weights);
  return [setup = std::move(setup), by_weight = std::move(by_weight)](std::uint64_t seed) {
    return std::make_unique<SampledPicker<Cost>>(setup, by_weight, seed);
  };
}

}  // namespace evenkeel
