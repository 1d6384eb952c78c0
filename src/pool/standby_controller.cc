#include "pool/standby_controller.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr double saturated_queue = 5;
constexpr double max_load = 2;  // of one backend: one long queue must not call for ten others

constexpr double baseline_decay_per_second = 0.01;
constexpr double baseline_gain = 0.05;  // per tick

std::uint32_t backends_for(double load, double target) {
  return static_cast<std::uint32_t>(std::ceil(load / target - 1e-9));
}

}  // namespace

double load_of(const BackendUtilization& sample, double enter) {
  // fmax ignores NaN.
  const double load = std::fmax(std::fmax(sample.in_flight_ratio, sample.kv_cache_ratio),
                                enter * sample.waiting / saturated_queue);
  return std::isnan(load) ? load : std::min(load, max_load);
}

double LatencyRise::tick(double first_byte_seconds, Instant now) {
  // Bounds the growth of the baseline over a pause without samples: otherwise a rise of the latency
  // after a night without traffic would not show.
  constexpr double max_tick = 1;
  const double passed = last_tick_ ? std::min(seconds_of(now - *last_tick_), max_tick) : 0;
  last_tick_ = now;
  if (std::isnan(first_byte_seconds)) return first_byte_seconds;
  baseline_seconds_ *= 1 + baseline_decay_per_second * passed;
  if (baseline_seconds_ == 0) baseline_seconds_ = first_byte_seconds;
  // Gradually, because the minimum of many noisy averages would be too low.
  if (first_byte_seconds < baseline_seconds_)
    baseline_seconds_ += (first_byte_seconds - baseline_seconds_) * baseline_gain;
  return first_byte_seconds / baseline_seconds_;
}

std::uint32_t StandbyController::tick(const PoolDemand& sample, const StandbyConfig& spec,
                                      Instant now) {
  const auto missing_for = [&](double target) {
    const std::uint32_t needed = backends_for(sample.load, target);
    return std::min(needed > sample.active ? needed - sample.active : 0, sample.standby);
  };
  const bool none_available = sample.active == 0 && (sample.down > 0 || sample.has_queue);
  const std::uint32_t replaced =
      std::min(std::max(sample.down, none_available ? 1u : 0u), sample.standby);
  const std::uint32_t loaded = missing_for(spec.enter);
  const std::uint32_t to_enter = std::max(loaded, replaced);
  const std::uint32_t to_stay = std::max(missing_for(spec.leave), replaced);

  if (to_enter <= target_) {
    shortage_since_.reset();
  } else {
    if (!shortage_since_) shortage_since_ = now;
    if (is_urgent(sample) || now - *shortage_since_ >= debounce) {
      target_ = to_enter;
      shortage_since_.reset();
    }
  }
  if (target_ == 0) {
    peak_outstanding_ = 0;
    return 0;
  }

  if (loaded >= target_) peak_outstanding_ = std::max(peak_outstanding_, sample.outstanding);
  const bool still_loaded =
      peak_outstanding_ > 0 && static_cast<double>(sample.outstanding) * spec.enter >
                                   static_cast<double>(peak_outstanding_) * spec.leave;
  if (to_stay >= target_ || still_loaded) {
    surplus_since_.reset();
    return target_;
  }
  if (!surplus_since_) {
    surplus_since_ = now;
    max_needed_ = 0;
  }
  max_needed_ = std::max(max_needed_, to_stay);
  if (now - *surplus_since_ >= spec.dwell) {
    target_ = max_needed_;
    surplus_since_.reset();
  }
  return target_;
}

}  // namespace evenkeel
