// Picks the backend of lowest cost: of all in a small pool, of two random ones in a large one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "picker/alias_table.h"
#include "picker/candidates.h"
#include "picker/pickers.h"

namespace evenkeel {

/// Picks the backend of lowest cost; ties are broken at random. `Cost` is constructed from the
/// candidates and has `double operator()(index, now)`.
///
/// In pools of up to 32 backends every one is evaluated. In larger pools two are drawn at random by
/// weight and the cheaper one is picked. That is nearly as even (the highest load exceeds the mean
/// by ln ln n / ln 2 + O(1)) in constant time, and workers with slightly old figures do not all
/// pick the same backend. A draw that is not eligible is repeated, up to 16 draws in all; if none
/// is eligible, every backend is evaluated.
///
/// Source: Mitzenmacher, The power of two choices in randomized load balancing, 1996.
template <class Cost>
class SampledPicker final : public CandidatePicker {
 public:
  SampledPicker(const PickerOptions& options, std::shared_ptr<const AliasTable> by_weight,
                std::uint64_t seed)
      : CandidatePicker(options, seed), by_weight_(std::move(by_weight)), cost_(candidates_) {}

  std::optional<double> compared_cost(std::size_t index, Instant now) override {
    const auto number = static_cast<std::uint32_t>(index);
    if (!scanned_ && number != drawn_.first && number != drawn_.second) return std::nullopt;
    return Cost(cost_)(number, now);  // a copy: what it learns from picks stays as it is
  }

 private:
  static constexpr std::uint32_t full_scan_limit = 32;
  static constexpr int max_draws = 16;

  std::uint32_t choose(const Eligible& eligible) override {
    if (candidates_.size() <= full_scan_limit) return cheapest(eligible);

    const Instant now = eligible.hint().now;
    std::uint32_t first = none;
    for (int draws = 0; draws < max_draws; ++draws) {
      const std::uint32_t drawn = by_weight_->draw(rng_);
      if (drawn == first || !eligible(drawn)) continue;
      if (first != none) {
        scanned_ = false;
        drawn_ = {first, drawn};
        return cost_(drawn, now) < cost_(first, now) ? drawn : first;
      }
      first = drawn;
    }
    scanned_ = first == none;
    drawn_ = {first, none};
    return first != none ? first : cheapest(eligible);
  }

  std::uint32_t cheapest(const Eligible& eligible) {
    const Instant now = eligible.hint().now;
    std::uint32_t best = none;
    double least = 0;
    std::uint32_t ties = 0;
    for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
      if (!eligible(index)) continue;
      const double cost = cost_(index, now);
      if (best != none && cost > least) continue;
      ties = best == none || cost < least ? 1 : ties + 1;
      if (ties == 1 || rng_.below(ties) == 0) {
        best = index;
        least = cost;
      }
    }
    return best;
  }

  std::shared_ptr<const AliasTable> by_weight_;
  Cost cost_;
  bool scanned_ = true;  // the last pick has looked at every backend, not only at those drawn
  std::pair<std::uint32_t, std::uint32_t> drawn_{none, none};
};

template <class Cost>
PickerFactory sampled_picker_factory(PickerOptions options) {
  std::vector<std::uint32_t> weights;
  for (const auto& backend : *options.backends) {
    weights.push_back(std::max(backend->spec().config.weight, 1u));
  }
  auto by_weight = std::make_shared<const AliasTable>(weights);
  return [options = std::move(options), by_weight = std::move(by_weight)](std::uint64_t seed) {
    return std::make_unique<SampledPicker<Cost>>(options, by_weight, seed);
  };
}

}  // namespace evenkeel
