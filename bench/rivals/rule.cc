#include "bench/rivals/rule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace evenkeel::bench {
namespace {

constexpr double equal_costs = 1e-12;

std::size_t blocks_of_a_cache(const EngineSpec& engine) {
  return std::size_t{engine.kv_blocks - 1} * engine.block_tokens / trace_block_tokens;
}

}  // namespace

Rule::Rule(const ReplayOptions& options, RequestSink& sink)
    : options_(options),
      sink_(sink),
      seen_(options.backends),
      everyone_(options.backends),
      rng_(mix(options.seed + 1)) {
  std::iota(everyone_.begin(), everyone_.end(), 0u);
}

void Rule::admit(ReplayedRequest& request) { request.ticket = admitted_++; }

void Rule::arrived(ReplayedRequest& request, Instant now) {
  admit(request);
  send(request, choose(request, now), now);
}

void Rule::send(ReplayedRequest& request, std::uint32_t backend, Instant now) {
  sent(request, backend, now);
  ++seen_[backend].prefilling;
  sink_.send(request, backend);
}

void Rule::first_token(ReplayedRequest& request, Instant now) {
  Seen& seen = seen_[request.backend];
  --seen.prefilling;
  ++seen.decoding;
  began(request, now);
}

void Rule::finished(ReplayedRequest& request, Instant now) {
  --seen_[request.backend].decoding;
  ended(request, now);
}

void Rule::polled(std::uint32_t backend, const LoadSample& report, Instant) {
  seen_[backend].report = report;
}

std::uint32_t Rule::least(std::span<const double> costs) { return least(costs, everyone_); }

std::uint32_t Rule::least(std::span<const double> costs, std::span<const std::uint32_t> among) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t each : among) lowest = std::min(lowest, costs[each]);
  std::vector<std::uint32_t> best;
  for (const std::uint32_t each : among) {
    if (costs[each] <= lowest + equal_costs) best.push_back(each);
  }
  return best[best.size() > 1 ? rng_.below(static_cast<std::uint32_t>(best.size())) : 0];
}

PrefixRule::PrefixRule(const ReplayOptions& options, RequestSink& sink)
    : Rule(options, sink), index_(options.backends, blocks_of_a_cache(options.engine)) {}

void PrefixRule::sent(const ReplayedRequest& request, std::uint32_t backend, Instant) {
  index_.add(backend, request.blocks);
}

std::vector<std::uint32_t> PrefixRule::matches(const ReplayedRequest& request) const {
  std::vector<std::uint32_t> depths;
  depths.reserve(backends());
  for (std::uint32_t i = 0; i < backends(); ++i) depths.push_back(index_.match(i, request.blocks));
  return depths;
}

double PrefixRule::tokens_of(std::uint32_t blocks, const ReplayedRequest& request) {
  return std::min<double>(1.0 * blocks * trace_block_tokens, request.prompt_tokens);
}

}  // namespace evenkeel::bench
