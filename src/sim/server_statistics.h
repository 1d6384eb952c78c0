// What a simulated server counts for its metrics page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Upper bounds of an engine's histograms, in seconds. The defaults are vLLM's.
struct HistogramBuckets {
  std::span<const double> first_token = default_first_token;
  std::span<const double> token_latency = default_token_latency;
  std::span<const double> request = default_request;
  std::span<const double> time_per_output_token = default_token_latency;

  static constexpr double default_first_token[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                                   .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                                   20,   40,   80,  160, 640, 2560};
  static constexpr double default_token_latency[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                                     .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
  static constexpr double default_request[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                               30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
};

/// A histogram as Prometheus counts it.
class PrometheusHistogram {
 public:
  explicit PrometheusHistogram(std::vector<double> bounds);
  void observe(double value, std::uint64_t times = 1);

  const std::vector<double>& bounds() const { return bounds_; }
  /// Observations per bucket; the last one is of what is above every bound.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

/// Share of busy time over about the last second.
class Utilization {
 public:
  explicit Utilization(Instant start) : window_start_(start) {}
  /// REQUIRES: spans come in order and do not overlap.
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
  ServerStatistics(const HistogramBuckets& buckets, std::uint32_t max_model_tokens);

  std::uint64_t requests = 0;
  std::uint64_t finished_stop = 0;    ///< ended naturally
  std::uint64_t finished_length = 0;  ///< ended by max_tokens
  std::uint64_t aborted = 0;
  std::uint64_t failed = 0;  ///< answered with an error status
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t adapter_loads = 0;
  double queue_seconds = 0;  ///< sums over finished requests
  double prefill_seconds = 0;
  double decode_seconds = 0;

  // Batched inference; the fields above count generation.
  std::uint64_t batched_requests = 0;  ///< succeeded
  std::uint64_t inferences = 0;        ///< items of batches
  std::uint64_t executions = 0;        ///< batches
  std::uint64_t rejected = 0;          ///< refused by a full queue
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
