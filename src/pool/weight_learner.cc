#include "pool/weight_learner.h"

#include <algorithm>

namespace evenkeel {
namespace {

constexpr Duration update_interval = std::chrono::milliseconds(950);  // every tenth tick
constexpr std::uint64_t window_answers = 16;  // an error of about a quarter, smoothed by `gain`
constexpr Duration max_window =
    std::chrono::seconds(20);  // after that a window may have fewer responses
constexpr double long_answer_seconds =
    0.5;  // from here on the samples of in_flight are exact enough
constexpr double stall_answers = 8;
constexpr double prior_answers = 4;  // weight of the mean speed, in responses
constexpr double gain = 0.4;

}  // namespace

void WeightLearner::tick(const Backends& backends, Instant now) {
  accumulate(backends, now);
  if (now - last_update_ < update_interval) return;
  last_update_ = now;
  for (const auto& backend : backends) {
    Window& window = windows_.at(&backend->shared());
    const auto observed = observe(backend->shared(), window, now);
    if (!observed) continue;
    window.speed = window.speed == 0 ? *observed : window.speed + (*observed - window.speed) * gain;
  }
  update_weights(backends);
}

double WeightLearner::learned_speed(const SharedBackend& shared) const {
  const auto found = windows_.find(&shared);
  return found == windows_.end() ? 0 : found->second.speed;
}

void WeightLearner::restore_speed(const SharedBackend& shared, double speed, Instant now) {
  windows_[&shared] = {.began = now,
                       .served = shared.stats.served_total(),
                       .spent = shared.stats.served_sum(),
                       .speed = speed};
}

void WeightLearner::accumulate(const Backends& backends, Instant now) {
  const double passed = last_look_at_ ? seconds_of(now - *last_look_at_) : 0;
  last_look_at_ = now;
  for (const auto& backend : backends) {
    const auto found = windows_.find(&backend->shared());
    if (found != windows_.end()) found->second.in_flight += backend->slots().in_flight() * passed;
  }
  sync_records(windows_, backends, [now](const Backend& backend) {
    return Window{.began = now,
                  .served = backend.stats().served_total(),
                  .spent = backend.stats().served_sum()};
  });
}

std::optional<double> WeightLearner::observe(const SharedBackend& shared, Window& window,
                                             Instant now) {
  const std::uint64_t answers = shared.stats.served_total() - window.served;
  const double spent = seconds_of(shared.stats.served_sum() - window.spent);
  const bool ends = answers >= window_answers || (answers > 0 && now - window.began >= max_window);
  const bool stalled = answers == 0 && window.in_flight * window.speed > stall_answers;
  if (!ends && !stalled) return std::nullopt;

  const auto count = static_cast<double>(std::max<std::uint64_t>(answers, 1));
  const bool take_long = stalled || spent / count > long_answer_seconds;
  const double time = take_long ? std::max(window.in_flight, spent / 4) : spent;
  window = {.began = now,
            .served = window.served + answers,
            .spent = shared.stats.served_sum(),
            .speed = window.speed};
  return count / std::max(time, 1e-6);
}

/// Responses per request-second: as learned, or the prior of weight_learner.h before the first full
/// window; 0 for a backend that has had no request.
double WeightLearner::speed_of(const SharedBackend& shared, double fallback_speed) const {
  const Window& window = windows_.at(&shared);
  if (window.speed > 0 || window.in_flight == 0) return window.speed;
  const auto answers = static_cast<double>(shared.stats.served_total() - window.served);
  return (answers + prior_answers) / (window.in_flight + prior_answers / fallback_speed);
}

void WeightLearner::update_weights(const Backends& backends) {
  double speeds = 0;
  double known = 0;
  double configured = 0;
  for (const auto& backend : backends) {
    configured += std::max(backend->spec().config.weight, 1u);
    const double speed = windows_.at(&backend->shared()).speed;
    speeds += speed;
    known += speed > 0;
  }
  if (known == 0) return;

  const double fallback_speed = speeds / known;
  double all_speeds = 0;
  double all_known = 0;
  for (const auto& backend : backends) {
    const double speed = speed_of(backend->shared(), fallback_speed);
    all_speeds += speed;
    all_known += speed > 0;
  }
  const double mean_speed = all_speeds / all_known;
  const double mean_weight = configured / static_cast<double>(backends.size());
  for (const auto& backend : backends) {
    SharedBackend& shared = backend->shared();
    const double speed = speed_of(shared, fallback_speed);
    if (speed == 0) continue;
    const double learned = shared.findings.learned_weight();
    const double before = learned > 0 ? learned : std::max(backend->spec().config.weight, 1u);
    const double share = std::clamp(speed / mean_speed, min_share, max_share);
    const double weight = std::clamp(share * mean_weight, before / max_change, before * max_change);
    shared.findings.set_learned_weight(static_cast<float>(weight));
  }
}

}  // namespace evenkeel
