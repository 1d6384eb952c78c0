#include "sim/server_statistics.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace evenkeel {
namespace {

using Bounds = std::vector<double>;

Bounds first_token_bounds(EngineKind kind) {
  if (kind == EngineKind::sglang) {
    return {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400};
  }
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

Bounds token_latency_bounds(EngineKind kind) {
  if (kind == EngineKind::sglang) {
    return {.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06,
            .08,  .1,   .2,   .4,   .6,  .8,   1,   2,    4,   6,    8};
  }
  return {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}

Bounds request_bounds(EngineKind kind) {
  if (kind == EngineKind::sglang)
    return {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400};
  if (kind == EngineKind::tgi) {
    Bounds bounds;  // metrics-exporter of TGI: from 0.1 ms, times 1.5
    for (double bound = 0.0001; bound < 1500; bound *= 1.5) bounds.push_back(bound);
    return bounds;
  }
  return {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
          30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

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
    : bounds_(std::move(bounds)), counts_(bounds_.size()) {}

void PrometheusHistogram::observe(double value, std::uint64_t times) {
  count_ += times;
  sum_ += value * static_cast<double>(times);
  const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  if (static_cast<std::size_t>(place) < counts_.size())
    counts_[static_cast<std::size_t>(place)] += times;
}

std::uint64_t PrometheusHistogram::cumulative(std::size_t i) const {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at <= i; ++at) sum += counts_[at];
  return sum;
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

ServerStatistics::ServerStatistics(EngineKind kind, std::uint32_t max_model_tokens)
    : time_to_first_token(first_token_bounds(kind)),
      inter_token_latency(token_latency_bounds(kind)),
      time_per_output_token(kind == EngineKind::tgi ? request_bounds(kind)
                                                    : token_latency_bounds(kind)),
      e2e_latency(request_bounds(kind)),
      queue_time(request_bounds(kind)),
      prefill_time(request_bounds(kind)),
      decode_time(request_bounds(kind)),
      inference_time(request_bounds(kind)),
      request_prompt_tokens(one_two_five(max_model_tokens)),
      request_generation_tokens(one_two_five(max_model_tokens)),
      request_max_tokens(one_two_five(max_model_tokens)),
      iteration_tokens({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {}

}  // namespace evenkeel
