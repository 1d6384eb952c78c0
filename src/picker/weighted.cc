// weighted: smooth weighted round robin. In every stretch of picks each backend gets its share,
// weight / (sum of weights), to within one or two picks, and its turns are spread evenly.
//
//   stride_i = 1 / weight_i;  pick the least pass_i;  pass_i += stride_i
//
// Source: stride scheduling (Waldspurger, Weihl, MIT/LCS/TM-528, 1995), which is earliest deadline
// first. nginx's smooth weighted round robin gives the same shares but looks at every backend for
// every pick; with a heap a pick is O(log n). A backend that is not eligible at its turn loses the
// turn: its share goes to the others by weight, and it is not owed anything later.
//
// With `weights: observed`, a backend's weight is the learned one (weight_learner.h), read at each
// of its turns; before the first update it is the configured one.
//
// The first turns are random, spread evenly among backends of equal weight: there are no ties to
// break, and workers do not pick in lockstep.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "picker/candidates.h"
#include "picker/pickers.h"

namespace evenkeel {
namespace {

class Weighted final : public CandidatePicker {
 public:
  Weighted(const PickerOptions& options, std::uint64_t seed)
      : CandidatePicker(options, seed),
        observed_(options.choice.weights == WeightSource::observed) {
    for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
      turns_.push_back({.pass = 0, .index = index});
    }
    spread_first_turns();
    std::make_heap(turns_.begin(), turns_.end(), later);
  }

 private:
  // 2^32 / weight is off by less than weight / 2^32.
  static constexpr double whole_round = 0x1p32;
  static constexpr int max_skipped_turns = 32;  // per pick; then every backend is looked at, once

  struct Turn {
    std::uint64_t pass;
    std::uint32_t index;
  };
  /// True if `a` comes later. Passes lie within one stride of each other, so they may wrap at 2^64.
  static bool later(const Turn& a, const Turn& b) {
    return static_cast<std::int64_t>(a.pass - b.pass) > 0;
  }
  double weight(std::uint32_t index) const {
    const double learned = observed_ ? candidates_.shared(index).findings.learned_weight() : 0;
    return learned > 0 ? learned : candidates_.weight(index);
  }
  std::uint64_t stride(std::uint32_t index) const {
    return static_cast<std::uint64_t>(whole_round / weight(index));
  }

  std::uint32_t choose(const Eligible& eligible) override {
    if (turns_.empty()) return none;
    // The first attempt of this pick has already skipped turns. Going on from there might always
    // end at the same backend.
    if (eligible.allow_deprioritized()) return random_by_weight(eligible);
    for (int lost = 0; lost < max_skipped_turns; ++lost) {
      const std::uint32_t index = turns_.front().index;
      end_first_turn();
      if (eligible(index)) return index;
    }
    return random_by_weight(eligible);
  }

  // Moves the first turn back by its stride, and those before it up. std::pop_heap and
  // std::push_heap would walk the heap twice.
  void end_first_turn() {
    Turn moved = turns_.front();
    moved.pass += stride(moved.index);
    const std::size_t size = turns_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && later(turns_[child], turns_[child + 1])) ++child;
      if (!later(moved, turns_[child])) break;
      turns_[hole] = turns_[child];
      hole = child;
    }
    turns_[hole] = moved;
  }

  // One pass: each eligible backend replaces the choice with probability weight / (sum so far).
  std::uint32_t random_by_weight(const Eligible& eligible) {
    std::uint32_t chosen = none;
    double sum = 0;
    for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
      if (!eligible(index)) continue;
      const double own = weight(index);
      sum += own;
      if (rng_.unit() * sum < own) chosen = index;
    }
    return chosen;
  }

  void spread_first_turns() {
    // A copy, because learned weights may change during the sort.
    std::vector<double> weights;
    for (std::uint32_t index = 0; index < candidates_.size(); ++index) {
      weights.push_back(weight(index));
    }
    std::shuffle(turns_.begin(), turns_.end(), rng_);
    std::sort(turns_.begin(), turns_.end(),
              [&](const Turn& a, const Turn& b) { return weights[a.index] < weights[b.index]; });
    for (auto first = turns_.begin(); first != turns_.end();) {
      const double own = weights[first->index];
      const auto last = std::find_if(first, turns_.end(),
                                     [&](const Turn& turn) { return weights[turn.index] != own; });
      const auto alike = static_cast<double>(last - first);
      double phase = rng_.unit();
      for (; first != last; ++first, phase += 1) {
        first->pass = static_cast<std::uint64_t>(phase / alike * whole_round / own);
      }
    }
  }

  const bool observed_;
  std::vector<Turn> turns_;  // a heap: the least pass first
};

}  // namespace

PickerFactory pickers::weighted(PickerOptions options) {
  return [options = std::move(options)](std::uint64_t seed) {
    return std::make_unique<Weighted>(options, seed);
  };
}

}  // namespace evenkeel
