#include "bench/rivals/cache_aware.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace evenkeel::bench {
namespace {

namespace sglang {
constexpr std::uint32_t balance_abs_threshold = 64;
constexpr double balance_rel_threshold = 1.5;
constexpr double cache_threshold = 0.3;
}  // namespace sglang

namespace llmd {
constexpr double affinity_threshold = 0.8;         // of the prompt's tokens
constexpr double saturation_tokens = 20'480 * 14;  // R_peak of Qwen3-32B on two H100s, T_max
}  // namespace llmd

}  // namespace

SglangCacheAware::SglangCacheAware(const ReplayOptions& options, RequestSink& sink)
    : PrefixRule(options, sink), inserted_(options.backends) {}

std::uint32_t SglangCacheAware::choose(const ReplayedRequest& request, Instant) {
  std::vector<double> loads;
  for (std::uint32_t i = 0; i < backends(); ++i) loads.push_back(seen(i).in_flight());
  const auto [lowest, highest] = std::minmax_element(loads.begin(), loads.end());
  if (*highest - *lowest > sglang::balance_abs_threshold &&
      *highest > sglang::balance_rel_threshold * *lowest) {
    return least(loads);
  }
  const std::vector<std::uint32_t> depths = matches(request);
  const double best = *std::max_element(depths.begin(), depths.end());
  if (best > sglang::cache_threshold * static_cast<double>(request.blocks.size())) {
    std::vector<double> costs;
    for (const std::uint32_t depth : depths) costs.push_back(-static_cast<double>(depth));
    return least(costs);
  }
  std::vector<double> sizes;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    sizes.push_back(static_cast<double>(index().blocks_of(i)));
  }
  // Full trees are all alike; then it is what went into them.
  const bool full =
      *std::min_element(sizes.begin(), sizes.end()) >= static_cast<double>(index().capacity());
  return least(full ? inserted_ : sizes);
}

void SglangCacheAware::sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) {
  inserted_[backend] +=
      static_cast<double>(request.blocks.size() - index().match(backend, request.blocks));
  PrefixRule::sent(request, backend, now);
}

LlmdSticky::LlmdSticky(const ReplayOptions& options, RequestSink& sink)
    : PrefixRule(options, sink), in_flight_tokens_(options.backends) {}

double LlmdSticky::uncached(const ReplayedRequest& request, std::uint32_t depth) const {
  return request.prompt_tokens - tokens_of(depth, request);
}

std::uint32_t LlmdSticky::choose(const ReplayedRequest& request, Instant) {
  const std::vector<std::uint32_t> depths = matches(request);
  std::vector<bool> warm;
  double least_warm = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < backends(); ++i) {
    warm.push_back(tokens_of(depths[i], request) / request.prompt_tokens >=
                   llmd::affinity_threshold);
    if (warm[i]) least_warm = std::min(least_warm, in_flight_tokens_[i]);
  }
  std::vector<std::uint32_t> candidates;
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    costs.push_back(in_flight_tokens_[i] + uncached(request, depths[i]));
    // Without a warm one, least_warm is infinite and all are candidates.
    if (warm[i] || in_flight_tokens_[i] <= least_warm - llmd::saturation_tokens) {
      candidates.push_back(i);
    }
  }
  return least(costs, candidates);
}

void LlmdSticky::sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) {
  counted_[request] = uncached(request, index().match(backend, request.blocks));
  in_flight_tokens_[backend] += counted_[request];
  PrefixRule::sent(request, backend, now);
}

void LlmdSticky::began(const ReplayedRequest& request, Instant) {
  in_flight_tokens_[request.backend] -= counted_[request];
}

}  // namespace evenkeel::bench
