#include "balance/speed_rule.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace evenkeel {
namespace {

constexpr Duration between_weighings = std::chrono::milliseconds(950);  // one turn in ten
constexpr std::uint64_t whole_window = 16;  // answers: an error of about a quarter, smoothed below
constexpr Duration long_window = std::chrono::seconds(20);  // ends with fewer, if it must
constexpr double long_answer = 0.5;                         // seconds: several looks
constexpr double missed_answers = 8;
constexpr double first_doubt = 4;  // answers that the others' mean counts for
constexpr double gain = 0.4;

}  // namespace

void SpeedRule::turn(const Backends& backends, Instant now) {
  look(backends, now);
  if (now - weighed_ < between_weighings) return;
  weighed_ = now;
  for (const auto& backend : backends) {
    Seen& seen = seen_.at(&backend->load());
    const auto observed = observe(backend->load(), seen, now);
    if (!observed) continue;
    seen.speed = seen.speed == 0 ? *observed : seen.speed + (*observed - seen.speed) * gain;
  }
  weigh(backends);
}

void SpeedRule::look(const Backends& backends, Instant now) {
  const double passed = looked_ ? seconds_of(now - *looked_) : 0;
  looked_ = now;
  for (const auto& backend : backends) {
    const Load& load = backend->load();
    const auto [found, fresh] = seen_.try_emplace(
        &load, Seen{.began = now, .served = load.served_total(), .spent = load.served_sum()});
    found->second.present = true;
    if (!fresh) found->second.in_flight += load.in_flight() * passed;
  }
  for (auto at = seen_.begin(); at != seen_.end();) {
    at = std::exchange(at->second.present, false) ? std::next(at) : seen_.erase(at);
  }
}

std::optional<double> SpeedRule::observe(const Load& load, Seen& seen, Instant now) {
  const std::uint64_t answers = load.served_total() - seen.served;
  const double spent = seconds_of(load.served_sum() - seen.spent);
  const bool ends = answers >= whole_window || (answers > 0 && now - seen.began >= long_window);
  const bool in_vain = answers == 0 && seen.in_flight * seen.speed > missed_answers;
  if (!ends && !in_vain) return std::nullopt;

  const auto count = static_cast<double>(std::max<std::uint64_t>(answers, 1));
  const bool take_long = in_vain || spent / count > long_answer;
  const double time = take_long ? std::max(seen.in_flight, spent / 4) : spent;
  seen = {.began = now,
          .served = seen.served + answers,
          .spent = load.served_sum(),
          .speed = seen.speed,
          .present = seen.present};
  return count / std::max(time, 1e-6);
}

/// As learnt; 0 of one who was never asked. Of one who has not answered enough: as the others,
/// until the time that requests have spent there says otherwise. Who is slow shows it by what is
/// missing.
double SpeedRule::speed_of(const Load& load, double presumed) const {
  const Seen& seen = seen_.at(&load);
  if (seen.speed > 0 || seen.in_flight == 0) return seen.speed;
  const auto answers = static_cast<double>(load.served_total() - seen.served);
  return (answers + first_doubt) / (seen.in_flight + first_doubt / presumed);
}

void SpeedRule::weigh(const Backends& backends) {
  double speeds = 0;
  double known = 0;
  double configured = 0;
  for (const auto& backend : backends) {
    configured += std::max(backend->spec().weight, 1u);
    const double speed = seen_.at(&backend->load()).speed;
    speeds += speed;
    known += speed > 0;
  }
  if (known == 0) return;

  const double presumed = speeds / known;
  double all_speeds = 0;
  double all_known = 0;
  for (const auto& backend : backends) {
    const double speed = speed_of(backend->load(), presumed);
    all_speeds += speed;
    all_known += speed > 0;
  }
  const double mean_speed = all_speeds / all_known;
  const double mean_weight = configured / static_cast<double>(backends.size());
  for (const auto& backend : backends) {
    Load& load = backend->load();
    const double speed = speed_of(load, presumed);
    if (speed == 0) continue;
    const double learnt = load.learnt_weight();
    const double before = learnt > 0 ? learnt : std::max(backend->spec().weight, 1u);
    const double share = std::clamp(speed / mean_speed, least_share, most_share);
    const double weight =
        std::clamp(share * mean_weight, before / most_change, before * most_change);
    load.learn_weight(static_cast<float>(weight));
  }
}

}  // namespace evenkeel
