// Rules that predict times. Their predictors are ideal: they have the coefficients of the
// simulated engine, where the products learn them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "bench/rivals/rule.h"

namespace evenkeel::bench {

/// The least predicted TTFT, as Mooncake's Conductor: prompts before it, then its own prefill. It
/// takes all backends to be of the same speed.
class GreedyTtft : public PrefixRule {
 public:
  GreedyTtft(const ReplayOptions& options, RequestSink& sink);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
  void sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) override;
  void began(const ReplayedRequest& request, Instant now) override;

  /// Tokens of the prompt, but for the last one, that `depth` blocks are.
  static double cached(const ReplayedRequest& request, std::uint32_t depth);
  virtual double prefill_seconds(const ReplayedRequest& request, std::uint32_t backend,
                                 std::uint32_t depth) const;
  /// Until the prompts before it are computed, if all goes as predicted.
  double wait_seconds(std::uint32_t backend, Instant now) const;
  /// Of the prompts before it, whatever has been computed of them.
  double queued_seconds(std::uint32_t backend) const;

 private:
  struct Queue {
    std::deque<const ReplayedRequest*> requests;  // sent, without a first token
    double seconds = 0;                           // of their prefills
    Instant ends{};                               // predicted
  };

  std::vector<Queue> queues_;
  PerRequest predicted_;  // seconds of its prefill
};

/// llm-d's predicted-latency scorer: 0.8 TTFT + 0.2 TPOT, each scaled to 0..1 over the candidates;
/// these are the backends that have 80 % of the prompt, unless that costs more than 5 s. One
/// request in a hundred explores. It knows the speeds that the backends began with.
class LlmdPredicted final : public GreedyTtft {
 public:
  LlmdPredicted(const ReplayOptions& options, RequestSink& sink);

 protected:
  std::uint32_t choose(const ReplayedRequest& request, Instant now) override;
  void began(const ReplayedRequest& request, Instant now) override;
  void ended(const ReplayedRequest& request, Instant now) override;
  double prefill_seconds(const ReplayedRequest& request, std::uint32_t backend,
                         std::uint32_t depth) const override;

 private:
  double speed(std::uint32_t backend) const;
  double token_seconds(const ReplayedRequest& request, std::uint32_t backend) const;

  std::vector<double> context_tokens_;
};

}  // namespace evenkeel::bench
