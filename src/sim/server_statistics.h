// What a simulated server counts while it serves, for its dialect's exposition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The engine whose manners a simulated server has.
enum class EngineKind : std::uint8_t { vllm, sglang, triton, tgi, llamacpp, generic };

/// A histogram as Prometheus counts it.
class PrometheusHistogram {
 public:
  explicit PrometheusHistogram(std::vector<double> bounds);
  void observe(double value, std::uint64_t times = 1);

  const std::vector<double>& bounds() const { return bounds_; }
  /// Observations up to and including bounds()[i].
  std::uint64_t cumulative(std::size_t i) const;
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// Share of time that something was busy, over about the last second.
class Utilization {
 public:
  explicit Utilization(Instant start) : window_start_(start) {}
  /// REQUIRES: spans in the order of time, not overlapping.
  void busy(Instant from, Instant to);
  /// 0..1.
  double ratio(Instant now);
  Duration total() const { return total_; }

 private:
  void roll_window(Instant now);

  Instant window_start_;
  Duration busy_in_window_{};
  Duration total_{};
  double previous_ratio_ = 0;
};

/// Counters since the (simulated) process started. Durations are of the wall clock, in seconds.
struct ServerStatistics {
  ServerStatistics(EngineKind kind, std::uint32_t max_model_tokens);

  std::uint64_t requests = 0;
  std::uint64_t finished_stop = 0;    ///< ended by themselves
  std::uint64_t finished_length = 0;  ///< ended by max_tokens
  std::uint64_t aborted = 0;
  std::uint64_t failed = 0;  ///< answered with an error status
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  double queue_seconds = 0;  ///< sums over requests that ended
  double prefill_seconds = 0;
  double decode_seconds = 0;

  // Of inferences that are run in batches, beside the generated ones above.
  std::uint64_t batched_requests = 0;  ///< that ended well
  std::uint64_t inferences = 0;        ///< items, as many as a request has
  std::uint64_t executions = 0;        ///< batches
  std::uint64_t rejected = 0;          ///< the line was full
  double batch_queue_seconds = 0;      ///< sums over requests
  double batch_compute_seconds = 0;

  PrometheusHistogram time_to_first_token;
  PrometheusHistogram inter_token_latency;
  PrometheusHistogram time_per_output_token;
  PrometheusHistogram e2e_latency;
  PrometheusHistogram queue_time;
  PrometheusHistogram prefill_time;
  PrometheusHistogram decode_time;
  PrometheusHistogram inference_time;
  PrometheusHistogram request_prompt_tokens;
  PrometheusHistogram request_generation_tokens;
  PrometheusHistogram request_max_tokens;
  PrometheusHistogram iteration_tokens;
};

}  // namespace evenkeel
