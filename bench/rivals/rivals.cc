#include "bench/rivals/rivals.h"

#include <algorithm>
#include <memory>

#include "bench/rivals/cache_aware.h"
#include "bench/rivals/dynamo.h"
#include "bench/rivals/load_rules.h"
#include "bench/rivals/predicted.h"
#include "bench/rivals/weighted_scores.h"

namespace evenkeel::bench {
namespace {

using std::chrono::milliseconds;

constexpr Duration seldom = std::chrono::seconds(1);  // of a rule that reads no reports

/// Makes the rule from what it takes besides options and sink.
template <class Kind, class... Settings>
DispatcherMaker maker(Settings... settings) {
  return [=](const ReplayOptions& options, RequestSink& sink) -> std::unique_ptr<Dispatcher> {
    return std::make_unique<Kind>(options, sink, settings...);
  };
}

std::vector<Rival> all_rivals() {
  return {
      {"p2c", seldom, maker<TwoChoices>()},
      {"gaie", milliseconds(50), maker<WeightedScores>(ScoreWeights{})},
      {"llmd-blend", milliseconds(50), maker<WeightedScores>(ScoreWeights{.cold = 2})},
      {"llmd-sticky", seldom, maker<LlmdSticky>()},
      {"llmd-predicted", seldom, maker<LlmdPredicted>()},
      {"sglang", seldom, maker<SglangCacheAware>()},
      {"prequal-rs", milliseconds(50), maker<PrequalRs>()},
      {"dynamo", seldom, maker<Dynamo>(DynamoOptions{})},
      {"dynamo-queue", seldom, maker<Dynamo>(DynamoOptions{.queue_steps = 4})},
      {"dynamo-tuned", seldom,
       maker<Dynamo>(DynamoOptions{.overlap_weight = 4, .queue_steps = 0.25})},
      {"greedy-ttft", seldom, maker<GreedyTtft>()},
  };
}

}  // namespace

const std::vector<Rival>& rivals() {
  static const std::vector<Rival> all = all_rivals();
  return all;
}

const Rival* find_rival(std::string_view name) {
  const auto found = std::find_if(rivals().begin(), rivals().end(),
                                  [name](const Rival& each) { return each.name == name; });
  return found == rivals().end() ? nullptr : &*found;
}

}  // namespace evenkeel::bench
