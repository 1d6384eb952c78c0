// Sums of weighted scores: the Gateway API Inference Extension (GAIE), llm-d, prequal-rs.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "bench/rivals/rule.h"

namespace evenkeel::bench {

/// Backends in the order in which they last got a prompt that none of them knew.
class ColdOrder {
 public:
  explicit ColdOrder(std::uint32_t backends) : last_(backends) {}

  /// 1 for the one that waited longest, down to 0 for the last. A lone backend has 1.
  std::vector<double> scores() const;
  void used(std::uint32_t backend) { last_[backend] = ++clock_; }

 private:
  std::vector<std::uint64_t> last_;
  std::uint64_t clock_ = 0;
};

struct ScoreWeights {
  double queue = 2;   ///< (max - waiting) / (max - min), of the polled queues
  double kv = 2;      ///< 1 - use of the KV cache, polled
  double prefix = 3;  ///< matched blocks / blocks of the prompt
  double cold = 0;    ///< of a prompt that no backend has: least recently used for such first
};

/// The scorers of GAIE's endpoint picker and llm-d's scheduler.
class WeightedScores final : public PrefixRule {
 public:
  WeightedScores(const ReplayOptions& options, RequestSink& sink, const ScoreWeights& weights);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;

 private:
  ScoreWeights weights_;
  ColdOrder cold_;
};

/// prequal-rs (its README and docs/configuration.md, 2026): hot prefixes weigh less the hotter they
/// are, a backend above 1.5 times the mean load pays, and a warm queue counts its own prefills.
class PrequalRs final : public PrefixRule {
 public:
  PrequalRs(const ReplayOptions& options, RequestSink& sink);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;

 private:
  double heat_of(std::uint64_t key, double holders);
  void smooth_loads(Instant now);

  std::unordered_map<std::uint64_t, double> arrivals_;  // by key
  double arrivals_sum_ = 0;
  std::vector<double> loads_;  // smoothed, of each backend
  Instant smoothed_at_{};
  ColdOrder cold_;
};

}  // namespace evenkeel::bench
