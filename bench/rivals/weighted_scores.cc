#include "bench/rivals/weighted_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace evenkeel::bench {
namespace {

/// 1 for the shortest queue, 0 for the longest; 1 for all if they are equal.
std::vector<double> queue_scores(const std::vector<double>& queues) {
  const auto [lowest, highest] = std::minmax_element(queues.begin(), queues.end());
  std::vector<double> scores;
  for (const double queue : queues) {
    scores.push_back(*lowest == *highest ? 1 : (*highest - queue) / (*highest - *lowest));
  }
  return scores;
}

double block_count(const ReplayedRequest& request) {
  return static_cast<double>(std::max<std::size_t>(request.blocks.size(), 1));
}

namespace prequal {
constexpr double prefix_weight = 3;
constexpr double queue_weight = 2;
constexpr double kv_weight = 2;
constexpr double overload_weight = 6;
constexpr double overload_from = 1.5;  // times the mean load
constexpr double cold_weight = 2;
constexpr double load_decay_seconds = 5;
constexpr double nearly_best = 0.9;  // of the best match: a holder of the prefix
constexpr double remembered_arrivals = 2000;
}  // namespace prequal

}  // namespace

std::vector<double> ColdOrder::scores() const {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < last_.size(); ++i) order.emplace_back(last_[i], i);
  std::sort(order.begin(), order.end());
  std::vector<double> scores(last_.size(), 1);
  for (std::size_t rank = 1; rank < order.size(); ++rank) {
    scores[order[rank].second] =
        1 - static_cast<double>(rank) / static_cast<double>(order.size() - 1);
  }
  return scores;
}

WeightedScores::WeightedScores(const ReplayOptions& options, RequestSink& sink,
                               const ScoreWeights& weights)
    : PrefixRule(options, sink), weights_(weights), cold_(options.backends) {}

std::uint32_t WeightedScores::choose(const ReplayedRequest& request, Instant) {
  const std::vector<std::uint32_t> depths = matches(request);
  const bool cold = *std::max_element(depths.begin(), depths.end()) == 0;
  std::vector<double> queues;
  for (std::uint32_t i = 0; i < backends(); ++i) queues.push_back(seen(i).report.waiting);
  const std::vector<double> queue = queue_scores(queues);
  const std::vector<double> rested = cold_.scores();
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    const double score =
        weights_.queue * queue[i] + weights_.kv * (1 - seen(i).report.kv_cache_ratio) +
        weights_.prefix * depths[i] / block_count(request) + (cold ? weights_.cold * rested[i] : 0);
    costs.push_back(-score);
  }
  const std::uint32_t chosen = least(costs);
  if (cold) cold_.used(chosen);
  return chosen;
}

PrequalRs::PrequalRs(const ReplayOptions& options, RequestSink& sink)
    : PrefixRule(options, sink), loads_(options.backends), cold_(options.backends) {}

/// How many times its even share of the arrivals the prefix has, for each of its holders.
double PrequalRs::heat_of(std::uint64_t key, double holders) {
  arrivals_[key] += 1;
  arrivals_sum_ += 1;
  if (arrivals_sum_ > prequal::remembered_arrivals) {
    std::erase_if(arrivals_, [](const auto& each) { return each.second <= 1; });
    arrivals_sum_ = 0;
    for (auto& [unused, count] : arrivals_) arrivals_sum_ += (count /= 2);
  }
  const auto found = arrivals_.find(key);
  const double count = found == arrivals_.end() ? 0 : found->second;
  return std::max(1.0, count / std::max(1.0, arrivals_sum_) * backends() / holders);
}

void PrequalRs::smooth_loads(Instant now) {
  const double kept = std::exp(-seconds_of(now - smoothed_at_) / prequal::load_decay_seconds);
  smoothed_at_ = now;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    const LoadSample& report = seen(i).report;
    loads_[i] = loads_[i] * kept + (report.waiting + report.running) * (1 - kept);
  }
}

std::uint32_t PrequalRs::choose(const ReplayedRequest& request, Instant now) {
  const std::vector<std::uint32_t> depths = matches(request);
  const auto [common, best] = std::minmax_element(depths.begin(), depths.end());
  const bool cold = *best == *common;  // no backend has more of it than all of them
  double holders = 0;
  for (const std::uint32_t depth : depths) {
    if (*best > 0 && depth >= prequal::nearly_best * *best) ++holders;
  }
  // Past what every backend holds, such as a system prompt.
  const std::uint64_t key =
      request.blocks.empty()
          ? 0
          : request.blocks[std::min<std::size_t>(*common, request.blocks.size() - 1)];
  const double heat = heat_of(key, std::max(1.0, holders));
  smooth_loads(now);

  const double mean =
      std::max(1.0, std::accumulate(loads_.begin(), loads_.end(), 0.0) / backends());
  std::vector<double> queues;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    const double waiting = seen(i).report.waiting;
    queues.push_back(cold ? waiting : std::max<double>(waiting, seen(i).prefilling));
  }
  const std::vector<double> queue = queue_scores(queues);
  const std::vector<double> rested = cold_.scores();
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    const double overload = std::max(0.0, loads_[i] / mean - prequal::overload_from);
    const double score = prequal::prefix_weight / heat * depths[i] / block_count(request) +
                         prequal::queue_weight * queue[i] +
                         prequal::kv_weight * (1 - seen(i).report.kv_cache_ratio) -
                         prequal::overload_weight * overload +
                         (cold ? prequal::cold_weight * rested[i] : 0);
    costs.push_back(-score);
  }
  const std::uint32_t chosen = least(costs);
  if (cold) cold_.used(chosen);
  return chosen;
}

}  // namespace evenkeel::bench
