#include "bench/rivals/predicted.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace evenkeel::bench {
namespace {

namespace llmd {
constexpr double affinity_threshold = 0.8;  // of the prompt's tokens
constexpr double affinity_seconds = 5;      // of TTFT that affinity may cost
constexpr double ttft_weight = 0.8;
constexpr double tpot_weight = 0.2;
constexpr double explored_ratio = 0.01;
// Of what is queued, a backend that is later than predicted still has this much before it.
constexpr double overdue_ratio = 0.3;
}  // namespace llmd

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

/// Scales the values of the candidates to 0..1; all 0 if they are equal.
void scale(std::vector<double>& values, const std::vector<std::uint32_t>& candidates) {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (const std::uint32_t each : candidates) {
    lowest = std::min(lowest, values[each]);
    highest = std::max(highest, values[each]);
  }
  for (double& value : values) value = highest > lowest ? (value - lowest) / (highest - lowest) : 0;
}

}  // namespace

GreedyTtft::GreedyTtft(const ReplayOptions& options, RequestSink& sink)
    : PrefixRule(options, sink), queues_(options.backends) {}

double GreedyTtft::cached(const ReplayedRequest& request, std::uint32_t depth) {
  return std::min<double>(tokens_of(depth, request), request.prompt_tokens - 1.0);
}

double GreedyTtft::prefill_seconds(const ReplayedRequest& request, std::uint32_t,
                                   std::uint32_t depth) const {
  const EngineSpec& engine = options().engine;
  const double before = cached(request, depth);
  const double tokens = request.prompt_tokens - before;
  return engine.cost.overhead * std::ceil(tokens / engine.max_batched_tokens) +
         engine.cost.per_prefill_token * tokens +
         engine.cost.per_attention_pair * tokens * (before + tokens / 2);
}

double GreedyTtft::wait_seconds(std::uint32_t backend, Instant now) const {
  return std::max(0.0, seconds_of(queues_[backend].ends - now));
}

double GreedyTtft::queued_seconds(std::uint32_t backend) const { return queues_[backend].seconds; }

std::uint32_t GreedyTtft::choose(const ReplayedRequest& request, Instant now) {
  const std::vector<std::uint32_t> depths = matches(request);
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    costs.push_back(wait_seconds(i, now) + prefill_seconds(request, i, depths[i]));
  }
  return least(costs);
}

void GreedyTtft::sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) {
  const double took = prefill_seconds(request, backend, index().match(backend, request.blocks));
  predicted_[request] = took;
  Queue& queue = queues_[backend];
  queue.requests.push_back(&request);
  queue.seconds += took;
  queue.ends = std::max(now, queue.ends) + duration_of(took);
  PrefixRule::sent(request, backend, now);
}

void GreedyTtft::began(const ReplayedRequest& request, Instant now) {
  Queue& queue = queues_[request.backend];
  std::erase(queue.requests, &request);
  queue.seconds = 0;
  for (const ReplayedRequest* each : queue.requests) queue.seconds += predicted_[*each];
  queue.ends = now + duration_of(queue.seconds);
}

LlmdPredicted::LlmdPredicted(const ReplayOptions& options, RequestSink& sink)
    : GreedyTtft(options, sink), context_tokens_(options.backends) {}

double LlmdPredicted::speed(std::uint32_t backend) const {
  const auto& speeds = options().speeds;
  return speeds.empty() ? 1 : speeds[backend % speeds.size()];
}

double LlmdPredicted::prefill_seconds(const ReplayedRequest& request, std::uint32_t backend,
                                      std::uint32_t depth) const {
  return GreedyTtft::prefill_seconds(request, backend, depth) / speed(backend);
}

double LlmdPredicted::token_seconds(const ReplayedRequest& request, std::uint32_t backend) const {
  const StepCost& cost = options().engine.cost;
  return (cost.overhead + cost.per_decode * (seen(backend).decoding + 1.0) +
          cost.per_context_token * (context_tokens_[backend] + request.prompt_tokens)) /
         speed(backend);
}

std::uint32_t LlmdPredicted::choose(const ReplayedRequest& request, Instant now) {
  const std::vector<std::uint32_t> depths = matches(request);
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<std::uint32_t> everyone(backends());
  std::iota(everyone.begin(), everyone.end(), 0u);
  std::vector<std::uint32_t> warm;
  double least_warm = std::numeric_limits<double>::infinity();
  for (const std::uint32_t i : everyone) {
    const double wait = std::max(wait_seconds(i, now), llmd::overdue_ratio * queued_seconds(i));
    ttft.push_back(wait + prefill_seconds(request, i, depths[i]));
    tpot.push_back(token_seconds(request, i));
    if (cached(request, depths[i]) >= llmd::affinity_threshold * request.prompt_tokens) {
      warm.push_back(i);
      least_warm = std::min(least_warm, ttft[i]);
    }
  }
  const double least_ttft = *std::min_element(ttft.begin(), ttft.end());
  const bool sticks = !warm.empty() && least_warm - least_ttft <= llmd::affinity_seconds;
  const bool explores = rng().unit() < llmd::explored_ratio;
  const auto& candidates = sticks && !explores ? warm : everyone;
  scale(ttft, candidates);
  scale(tpot, candidates);
  std::vector<double> costs;
  for (const std::uint32_t i : everyone) {
    costs.push_back(llmd::ttft_weight * ttft[i] + llmd::tpot_weight * tpot[i]);
  }
  return least(costs, candidates);
}

void LlmdPredicted::began(const ReplayedRequest& request, Instant now) {
  GreedyTtft::began(request, now);
  context_tokens_[request.backend] += request.prompt_tokens;
}

void LlmdPredicted::ended(const ReplayedRequest& request, Instant) {
  context_tokens_[request.backend] -= request.prompt_tokens;
}

}  // namespace evenkeel::bench
