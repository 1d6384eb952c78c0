// least-connections: the least (in_flight + 1) / weight. Ties at random.
//
// Small pools (up to 32) are looked at whole. In larger ones two are drawn at random by weight and
// the less loaded is taken: nearly as even (most load over the mean is ln ln n / ln 2 + O(1)), at a
// constant cost, and workers who see counts a moment old do not all run to the same backend.
// Source: Mitzenmacher, The power of two choices in randomized load balancing, 1996; weights as in
// Envoy's least request with bias 1. Who is drawn but not eligible is drawn again, a few times;
// only when that fails is everybody looked at.
#include <memory>
#include <numeric>
#include <vector>

#include "balance/alias_table.h"
#include "balance/candidates.h"
#include "balance/pickers.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t looked_at_whole = 32;
constexpr int most_draws = 16;

class LeastConnections final : public CandidatePicker {
 public:
  LeastConnections(const PickerSetup& setup, std::shared_ptr<const AliasTable> by_weight,
                   std::uint64_t seed)
      : CandidatePicker(setup, seed), by_weight_(std::move(by_weight)) {}

 private:
  std::uint32_t choose(const Eligible& eligible) override {
    if (candidates_.size() <= looked_at_whole) return least_loaded(eligible);

    std::uint32_t first = nobody;
    for (int draws = 0; draws < most_draws; ++draws) {
      const std::uint32_t drawn = by_weight_->draw(rng_);
      if (drawn == first || !eligible(drawn)) continue;
      if (first != nobody) return compare_load(drawn, first) < 0 ? drawn : first;
      first = drawn;
    }
    return first != nobody ? first : least_loaded(eligible);
  }

  std::shared_ptr<const AliasTable> by_weight_;
};

std::vector<std::uint32_t> weights_of(const Backends& backends) {
  std::vector<std::uint32_t> weights;
  for (const auto& backend : backends) weights.push_back(std::max(backend->spec().weight, 1u));
  return weights;
}

}  // namespace

PickerMaker pickers::least_connections(PickerSetup setup) {
  auto by_weight = std::make_shared<const AliasTable>(weights_of(*setup.backends));
  return [setup = std::move(setup), by_weight](std::uint64_t seed) {
    return std::make_unique<LeastConnections>(setup, by_weight, seed);
  };
}

}  // namespace evenkeel
