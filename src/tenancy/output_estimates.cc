#include "evenkeel/tenancy/output_estimates.h"

#include <algorithm>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

constexpr float quantile = 0.95F;
constexpr float step = 0.2F;  // how far one output moves the estimate, as a share of it

}  // namespace

std::atomic<float>& OutputEstimates::of(std::string_view model) {
  return estimates_[hash_of(model) % estimates_.size()];
}

std::uint64_t OutputEstimates::tokens_of(const InferenceRequest& request) const {
  if (!are_of(request.task)) return 0;
  const float learned =
      estimates_[hash_of(request.model) % estimates_.size()].load(std::memory_order_relaxed);
  double tokens = std::max<double>(learned, default_tokens);
  if (request.max_tokens) tokens = std::min<double>(tokens, *request.max_tokens);
  return static_cast<std::uint64_t>(tokens * std::max<std::uint32_t>(request.choices, 1));
}

void OutputEstimates::learn(const InferenceRequest& request, std::uint64_t tokens) {
  if (!are_of(request.task)) return;
  const auto each =
      static_cast<float>(tokens) / static_cast<float>(std::max<std::uint32_t>(request.choices, 1));
  std::atomic<float>& estimate = of(request.model);
  const float before = estimate.load(std::memory_order_relaxed);
  float after = std::max(each, 1.0F);  // of the first one
  if (before > 0)
    after = before * (each > before ? 1 + step * quantile : 1 - step * (1 - quantile));
  // A lost update is one output that teaches nothing.
  estimate.store(std::max(after, 1.0F), std::memory_order_relaxed);
}

}  // namespace evenkeel
