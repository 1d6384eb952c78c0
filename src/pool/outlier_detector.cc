#include "pool/outlier_detector.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// An ejection is forgotten after this time without another one, but not before `ejection`.
constexpr Duration min_memory = std::chrono::seconds(30);

/// Longest time until a real request is the trial of a backend whose probes fail: the probe may ask
/// for what this server cannot do.
constexpr Duration max_probed_ejection = std::chrono::minutes(5);

/// The third ejection and those after it, in units of the second: a trial would cost one more
/// client its request.
constexpr int last_ejections = 10;
/// The longest ejection, which is the longest that the file may ask for.
constexpr Duration max_ejection = std::chrono::hours(24);

// Success rates, as in Envoy, which has no `min_gap`: a rate of 99 % is no reason.
constexpr Duration window = std::chrono::seconds(10);
constexpr std::uint64_t min_requests = 100;
constexpr std::size_t min_backends = 5;
constexpr double max_deviations = 1.9;
constexpr double min_gap = 0.05;

/// True if shares of the pool are computed with the backend: it is not out for another reason.
bool is_member(const SharedBackend& shared) {
  return shared.state.other_reasons(OutOfRotation::unhealthy, OutOfRotation::ejected) == 0;
}

bool does_well(const BackendState& state, Instant now) {
  return state.in_rotation() && !state.unreachable(now) && state.failures_in_a_row() == 0 &&
         state.why() != Avoidance::ejected;
}

/// True if the backend serves, and has not had one failure in the last 20 s.
bool is_clean(const SharedBackend& shared, Instant now) {
  return shared.state.serving() && shared.stats.recent_failures(now) == 0;
}

}  // namespace

struct OutlierDetector::FitCounts {
  std::size_t members = 0;
  std::size_t fit = 0;
  std::size_t ejected = 0;

  bool in_panic(std::size_t lost = 0) const { return (fit - lost) * 2 < members; }
};

void OutlierDetector::activate(const PoolSpec& spec,
                               const std::shared_ptr<const Backends>& backends) {
  const std::lock_guard lock(mutex_);
  pool_ = spec.config.name;
  config_ = spec.config.outlier;
  check_interval_ = spec.config.health.interval;
  retries_trials_ = spec.retries_trials;
  backends_ = backends;
  consecutive_.store(config_.max_ejected > 0 ? config_.consecutive : 0, std::memory_order_relaxed);
  forget_others(records_, *backends);
  forget_others(totals_, *backends);
}

/// Gives up while another thread holds the lock: the next failure tries again.
void OutlierDetector::try_eject(SharedBackend& shared, Instant now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto backends = backends_.lock();
  if (backends == nullptr || !has_failed_enough(*backends, shared, now) ||
      !may_eject(*backends, shared, now)) {
    return;
  }
  eject(shared, EjectionReason::consecutive, now);
}

/// True if the backend is on trial, or has failed `consecutive` times in a row. Fewer 5xx suffice
/// while every other backend in rotation is free of failures: then no request was at fault.
bool OutlierDetector::has_failed_enough(const Backends& backends, const SharedBackend& shared,
                                        Instant now) const {
  if (shared.state.why() == Avoidance::ejected) return true;
  const std::uint32_t failures = shared.state.failures_in_a_row();
  if (failures >= config_.consecutive) return true;
  if (shared.state.details().last_failure.status == 0) return false;  // several may break together
  std::uint64_t picks = 0;
  for (const auto& backend : backends) {
    const SharedBackend& other = backend->shared();
    if (&other == &shared || !other.state.in_rotation()) continue;
    if (!is_clean(other, now)) return false;
    picks += other.slots.picks_total();
  }
  return picks >= failures;
}

bool OutlierDetector::may_eject(const Backends& backends, const SharedBackend& shared,
                                Instant now) const {
  if (config_.max_ejected <= 0 || !is_fit(shared.state)) return false;
  const FitCounts counts = count(backends);
  const auto share =
      static_cast<std::size_t>(static_cast<double>(counts.members) * config_.max_ejected);
  if (counts.ejected >= std::max<std::size_t>(share, 1) || counts.in_panic(1)) return false;

  bool is_here = false;  // a request of an older plan may fail on a backend that was removed
  std::size_t others = 0;
  std::size_t well = 0;
  for (const auto& backend : backends) {
    const SharedBackend& other = backend->shared();
    is_here = is_here || &other == &shared;
    if (&other == &shared || !other.state.in_rotation()) continue;
    ++others;
    well += does_well(other.state, now);
  }
  return is_here && well > 0 && well * 2 >= others;
}

void OutlierDetector::eject(SharedBackend& shared, EjectionReason reason, Instant now) {
  Record& record = records_[&shared];
  const Duration time = ejection_time(shared, record.ejections++);
  record.last = now;
  shared.state.eject(reason, time, now);
}

/// The time until the backend's trial, after so many ejections that are not forgotten.
Duration OutlierDetector::ejection_time(const SharedBackend& shared, std::uint32_t earlier) const {
  const Duration first = std::min(check_interval_, config_.ejection);
  const Duration second = config_.ejection;
  if (shared.state.is_probed() || retries_trials_) {
    return std::min(first * (1 << std::min(earlier, 20u)), second);
  }
  if (earlier == 0) return first;
  if (earlier == 1) return second;
  return std::max(second, std::min(second * last_ejections, max_ejection));
}

std::uint32_t OutlierDetector::ejections_of(const SharedBackend& shared) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(&shared);
  return found == records_.end() ? 0 : found->second.ejections;
}

void OutlierDetector::restore(SharedBackend& shared, const LearnedState& learned, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto backends = backends_.lock();
  if (backends == nullptr) return;
  records_[&shared] = {.ejections = learned.ejections, .last = now};
  if (!learned.ejected || !may_eject(*backends, shared, now)) return;
  shared.state.eject(*learned.ejected, learned.ejected_for, now);
}

/// True if the backend is not ejected, not down, and not in rotation only because the pool panics.
bool OutlierDetector::is_fit(const BackendState& state) const {
  return state.in_rotation() && !(panics() && state.why() == Avoidance::ejected);
}

OutlierDetector::FitCounts OutlierDetector::count(const Backends& backends) const {
  FitCounts counts;
  for (const auto& backend : backends) {
    const SharedBackend& shared = backend->shared();
    if (!is_member(shared)) continue;
    ++counts.members;
    counts.fit += is_fit(shared.state);
    counts.ejected += shared.state.is_out(OutOfRotation::ejected);
  }
  return counts;
}

void OutlierDetector::tick(Instant now) {
  const std::lock_guard lock(mutex_);
  const auto backends = backends_.lock();
  if (backends == nullptr) return;
  compare_success_rates(*backends, now);
  if (!records_.empty()) {
    for (const auto& backend : *backends) maintain(*backend, now);
  }
  update_panic(*backends, now);
}

void OutlierDetector::maintain(const Backend& backend, Instant now) {
  SharedBackend& shared = backend.shared();
  const auto found = records_.find(&shared);
  if (found == records_.end()) return;
  Record& record = found->second;
  log_change(backend, record);
  if (shared.state.why() != Avoidance::ejected) {
    if (now - record.last < std::max<Duration>(min_memory, config_.ejection)) return;
    record.last = now;
    if (--record.ejections == 0) records_.erase(found);
  } else if (config_.max_ejected <= 0) {
    shared.state.forget();
    if (shared.state.in_rotation()) {
      shared.stats.forget_latency();
      backend.activate();  // serves the queue
    }
  } else if (shared.state.is_out(OutOfRotation::ejected) && is_due(shared, record, now)) {
    backend.put_back(OutOfRotation::ejected);
  }
}

/// True if a real request shall be the backend's trial.
bool OutlierDetector::is_due(const SharedBackend& shared, const Record& record, Instant now) const {
  if (!shared.state.is_probed()) return !shared.state.avoided(now);
  const Duration patience = std::min<Duration>(
      std::max(config_.ejection, check_interval_) * record.ejections, max_probed_ejection);
  return now - record.last >= patience;
}

void OutlierDetector::update_panic(const Backends& backends, Instant now) {
  const bool panics = count(backends).in_panic();
  panics_.store(panics, std::memory_order_relaxed);
  bool ignores = false;
  for (const auto& backend : backends) {
    BackendState& state = backend->state();
    if (!panics || !state.is_out(OutOfRotation::ejected)) continue;
    state.allow_trial(now);
    backend->put_back(OutOfRotation::ejected);
    ignores = true;
  }
  if (ignores) {
    log::outlier.warning(
        "pool " + pool_ +
        ": fewer than half of the backends are fit to serve; ejections are ignored");
  }
}

void OutlierDetector::compare_success_rates(const Backends& backends, Instant now) {
  if (now - window_began_ < window) return;
  window_began_ = now;
  struct Rate {
    SharedBackend* shared;
    double value;
  };
  std::vector<Rate> rates;
  double sum = 0;
  double squares = 0;
  for (const auto& backend : backends) {
    SharedBackend& shared = backend->shared();
    const Totals ended{.picks = shared.slots.picks_total(),
                       .failures = shared.stats.failed_total()};
    const Totals began = std::exchange(totals_[&shared], ended);
    const std::uint64_t picks = ended.picks - began.picks;
    const std::uint64_t failures = ended.failures - began.failures;
    if (picks < min_requests || !shared.state.in_rotation()) continue;
    const double rate =
        1 - static_cast<double>(std::min(failures, picks)) / static_cast<double>(picks);
    rates.push_back({&shared, rate});
    sum += rate;
    squares += rate * rate;
  }
  if (config_.max_ejected <= 0 || rates.size() < min_backends) return;
  const double mean = sum / static_cast<double>(rates.size());
  const double deviation =
      std::sqrt(std::max(0.0, squares / static_cast<double>(rates.size()) - mean * mean));
  const double least = std::min(mean - max_deviations * deviation, mean - min_gap);
  for (const Rate& rate : rates) {
    if (rate.value < least && may_eject(backends, *rate.shared, now)) {
      eject(*rate.shared, EjectionReason::success_rate, now);
    }
  }
}

void OutlierDetector::log_change(const Backend& backend, Record& record) const {
  const BackendState& state = backend.state();
  const Stage now = state.is_out(OutOfRotation::ejected) ? Stage::ejected
                    : state.why() == Avoidance::ejected  ? Stage::on_trial
                                                         : Stage::none;
  if (std::exchange(record.logged, now) == now) return;
  const std::string name = "pool " + pool_ + ": " + backend.id();
  switch (now) {
    case Stage::ejected:
      return log::outlier.warning(name + " is ejected: " + describe_ejection(state));
    case Stage::on_trial: return log::outlier.info(name + " gets a request as its trial");
    case Stage::none: return log::outlier.info(name + " is no longer ejected");
  }
}

}  // namespace evenkeel
