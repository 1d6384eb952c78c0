#include "sim/server_statistics.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace evenkeel {
namespace {

using Bounds = std::vector<double>;

Bounds bounds_of(std::span<const double> bounds) { return {bounds.begin(), bounds.end()}; }

Bounds one_two_five(double most) {
  Bounds bounds;
  for (double decade = 1; decade <= most; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * decade <= most) bounds.push_back(digit * decade);
    }
  }
  return bounds;
}

}  // namespace

PrometheusHistogram::PrometheusHistogram(Bounds bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void PrometheusHistogram::observe(double value, std::uint64_t times) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)] += times;
  sum_ += value * static_cast<double>(times);
}

void Utilization::roll_window(Instant now) {
  constexpr Duration window = std::chrono::seconds(1);
  const Duration age = now - window_start_;
  if (age < window) return;
  previous_ratio_ = std::min(1.0, seconds_of(busy_in_window_) / seconds_of(age));
  window_start_ = now;
  busy_in_window_ = {};
}

void Utilization::busy(Instant from, Instant to) {
  total_ += to - from;
  busy_in_window_ += to - std::max(from, window_start_);
  roll_window(to);
}

double Utilization::ratio(Instant now) {
  roll_window(now);
  return previous_ratio_;
}

ServerStatistics::ServerStatistics(const HistogramBuckets& buckets, std::uint32_t max_model_tokens)
    : time_to_first_token(bounds_of(buckets.first_token)),
      inter_token_latency(bounds_of(buckets.token_latency)),
      time_per_output_token(bounds_of(buckets.time_per_output_token)),
      e2e_latency(bounds_of(buckets.request)),
      queue_time(bounds_of(buckets.request)),
      prefill_time(bounds_of(buckets.request)),
      decode_time(bounds_of(buckets.request)),
      inference_time(bounds_of(buckets.request)),
      request_prompt_tokens(one_two_five(max_model_tokens)),
      request_generation_tokens(one_two_five(max_model_tokens)),
      request_max_tokens(one_two_five(max_model_tokens)),
      iteration_tokens({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {}

}  // namespace evenkeel
