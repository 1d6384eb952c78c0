// Rules that follow the prefix first and look at the load when they must: SGLang, llm-d.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/rivals/rule.h"

namespace evenkeel::bench {

/// SGLang's cache_aware (sgl-router/src/policies/cache_aware.rs): the best match if it is good, the
/// smallest tree otherwise, and the fewest requests while the backends differ much in them.
class SglangCacheAware final : public PrefixRule {
 public:
  SglangCacheAware(const ReplayOptions& options, RequestSink& sink);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
  void sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) override;

 private:
  std::vector<double> inserted_;  // blocks, ever
};

/// llm-d's token-aware scorer ("sticky until saturated", its default since August 2026): backends
/// that have most of the prompt, unless the least loaded of them is behind another one by more than
/// they compute in 14 s; of these the one with the fewest uncached tokens before a first token.
class LlmdSticky final : public PrefixRule {
 public:
  LlmdSticky(const ReplayOptions& options, RequestSink& sink);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
  void sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) override;
  void began(const ReplayedRequest& request, Instant now) override;

 private:
  double uncached(const ReplayedRequest& request, std::uint32_t depth) const;

  std::vector<double> in_flight_tokens_;
  PerRequest counted_;
};

}  // namespace evenkeel::bench
