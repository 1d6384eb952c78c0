// NVIDIA Dynamo's KV router.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "bench/rivals/rule.h"

namespace evenkeel::bench {

struct DynamoOptions {
  double overlap_weight = 1;  ///< `kv_overlap_score_weight`
  /// Requests wait while every backend has more prefill tokens than so many steps take
  /// (`router_queue_threshold`), shortest uncached prompt first (WSPT). Infinite: no queue.
  double queue_steps = std::numeric_limits<double>::infinity();
};

/// Least of w * prefill blocks + decode blocks, its own included. It knows from KV events what the
/// engines have cached, exactly and at once.
class Dynamo final : public Rule {
 public:
  Dynamo(const ReplayOptions& options, RequestSink& sink, const DynamoOptions& rule);

  void arrived(ReplayedRequest& request, Instant now) override;
  void decide(Instant now) override;

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
  void sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) override;
  void began(const ReplayedRequest& request, Instant now) override;
  void ended(const ReplayedRequest& request, Instant now) override;

 private:
  struct Backlog {
    double prefill_tokens = 0;  ///< of requests without a first token, uncached
    double prompt_tokens = 0;   ///< of all requests
  };

  double uncached(const ReplayedRequest& request, std::uint32_t backend) const;
  double least_uncached(const ReplayedRequest& request) const;
  bool may_send() const;

  DynamoOptions rule_;
  std::vector<Backlog> backlogs_;
  PerRequest counted_;  // prefill tokens
  std::vector<ReplayedRequest*> waiting_;
};

}  // namespace evenkeel::bench
