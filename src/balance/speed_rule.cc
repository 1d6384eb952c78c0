#include "balance/speed_rule.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace evenkeel {
namespace {

constexpr Duration between_turns = std::chrono::seconds(1);
constexpr std::uint64_t whole_window = 16;  // answers: an error of about a quarter, smoothed below
constexpr Duration long_window = std::chrono::seconds(20);  // ends with fewer, if it must
constexpr double missed_answers = 8;
constexpr double gain = 0.4;

}  // namespace

void SpeedRule::turn(const Backends& backends, Instant now) {
  if (last_ && now - *last_ < between_turns) return;
  last_ = now;

  double speeds = 0;
  double known = 0;
  double configured = 0;
  for (const auto& backend : backends) {
    const Load& load = backend->load();
    const auto [found, fresh] = seen_.try_emplace(
        &load, Seen{.began = now, .served = load.served_total(), .spent = load.served_sum()});
    Seen& seen = found->second;
    seen.present = true;
    if (const auto observed = fresh ? std::nullopt : observe(load, seen, now)) {
      seen.speed = seen.speed == 0 ? *observed : seen.speed + (*observed - seen.speed) * gain;
    }
    configured += std::max(backend->spec().weight, 1u);
    if (seen.speed == 0) continue;
    speeds += seen.speed;
    known += 1;
  }
  forget_the_gone();
  if (known == 0) return;

  const double mean_speed = speeds / known;
  const double mean_weight = configured / static_cast<double>(backends.size());
  for (const auto& backend : backends) {
    Load& load = backend->load();
    const double speed = seen_.at(&load).speed;
    if (speed == 0) continue;
    const double learnt = load.learnt_weight();
    const double before = learnt > 0 ? learnt : std::max(backend->spec().weight, 1u);
    const double share = std::clamp(speed / mean_speed, least_share, most_share);
    const double weight =
        std::clamp(share * mean_weight, before / most_change, before * most_change);
    load.learn_weight(static_cast<float>(weight));
  }
}

std::optional<double> SpeedRule::observe(const Load& load, Seen& seen, Instant now) {
  const std::uint64_t answers = load.served_total() - seen.served;
  const Duration spent = load.served_sum() - seen.spent;
  const Duration passed = now - seen.began;
  std::optional<double> observed;
  if (answers >= whole_window || (answers > 0 && passed >= long_window)) {
    observed = static_cast<double>(answers) / std::max(seconds_of(spent), 1e-6);
  } else if (answers == 0) {
    const double in_vain = load.in_flight() * seconds_of(passed);
    if (seen.speed > 0 && in_vain * seen.speed > missed_answers) observed = 1 / in_vain;
  }
  if (observed) {
    seen.began = now;
    seen.served += answers;
    seen.spent += spent;
  }
  return observed;
}

void SpeedRule::forget_the_gone() {
  for (auto at = seen_.begin(); at != seen_.end();) {
    at = std::exchange(at->second.present, false) ? std::next(at) : seen_.erase(at);
  }
}

}  // namespace evenkeel
