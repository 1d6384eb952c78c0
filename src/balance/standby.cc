#include "balance/standby.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr double saturated_queue = 5;
constexpr double most_load = 2;  // of one backend: a long queue is not the need of ten spares

constexpr double forgotten_a_second = 0.01;
constexpr double calming = 0.05;  // of the way, with each turn

std::uint32_t backends_for(double load, double target) {
  return static_cast<std::uint32_t>(std::ceil(load / target - 1e-9));
}

}  // namespace

double load_of(const Burden& burden, double enter) {
  // fmax passes over what is NaN.
  const double load = std::fmax(std::fmax(burden.in_flight_ratio, burden.kv_cache_ratio),
                                enter * burden.waiting / saturated_queue);
  return std::isnan(load) ? load : std::min(load, most_load);
}

double Slowdown::turn(double first_byte_seconds, Instant now) {
  // A night without traffic is no reason to take the morning's crowd for calm.
  constexpr double longest_turn = 1;
  const double passed = turned_ ? std::min(seconds_of(now - *turned_), longest_turn) : 0;
  turned_ = now;
  if (std::isnan(first_byte_seconds)) return first_byte_seconds;
  calm_ *= 1 + forgotten_a_second * passed;
  if (calm_ == 0) calm_ = first_byte_seconds;
  // Not at one stroke: the least of many noisy averages would be too little.
  if (first_byte_seconds < calm_) calm_ += (first_byte_seconds - calm_) * calming;
  return first_byte_seconds / calm_;
}

std::uint32_t StandbyRule::turn(const PoolBurden& burden, const SparesSpec& spec, Instant now) {
  const auto missing_for = [&](double target) {
    const std::uint32_t needed = backends_for(burden.load, target);
    return std::min(needed > burden.active ? needed - burden.active : 0, burden.spares);
  };
  const bool nobody = burden.active == 0 && (burden.down > 0 || burden.line);
  const std::uint32_t replaced = std::min(std::max(burden.down, nobody ? 1u : 0u), burden.spares);
  const std::uint32_t loaded = missing_for(spec.enter);
  const std::uint32_t to_enter = std::max(loaded, replaced);
  const std::uint32_t to_stay = std::max(missing_for(spec.leave), replaced);

  if (to_enter <= wanted_) {
    short_since_.reset();
  } else {
    if (!short_since_) short_since_ = now;
    if (is_urgent(burden) || now - *short_since_ >= blip) {
      wanted_ = to_enter;
      short_since_.reset();
    }
  }
  if (wanted_ == 0) {
    most_carried_ = 0;
    return 0;
  }

  if (loaded >= wanted_) most_carried_ = std::max(most_carried_, burden.carried);
  const bool carries_much =
      most_carried_ > 0 && static_cast<double>(burden.carried) * spec.enter >
                               static_cast<double>(most_carried_) * spec.leave;
  if (to_stay >= wanted_ || carries_much) {
    calm_since_.reset();
    return wanted_;
  }
  if (!calm_since_) {
    calm_since_ = now;
    most_needed_ = 0;
  }
  most_needed_ = std::max(most_needed_, to_stay);
  if (now - *calm_since_ >= spec.dwell) {
    wanted_ = most_needed_;
    calm_since_.reset();
  }
  return wanted_;
}

}  // namespace evenkeel
