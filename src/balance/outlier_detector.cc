#include "balance/outlier_detector.h"

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
/// But no ejection is longer than the file may ask for.
constexpr Duration max_ejection = std::chrono::hours(24);

// Success rates, as in Envoy, which has no `min_gap`: a rate of 99 % is no reason.
constexpr Duration window = std::chrono::seconds(10);
constexpr std::uint64_t min_requests = 100;
constexpr std::size_t min_backends = 5;
constexpr double max_deviations = 1.9;
constexpr double min_gap = 0.05;

/// It counts when shares of the pool are computed: it is not out for another reason.
bool is_member(const Load& load) {
  return load.other_reasons(OutOfRotation::unhealthy, OutOfRotation::ejected) == 0;
}

/// Not ejected, not down, and not in rotation only because the pool panics.
bool is_fit(const Load& load) { return load.in_rotation() && load.ejection() != Ejection::ignored; }

bool does_well(const Load& load, Instant now) {
  return load.in_rotation() && !load.unreachable(now) && load.failures_in_a_row() == 0 &&
         load.ejection() == Ejection::none;
}

/// Not one failure in the last 20 s.
bool is_clean(const Load& load, Instant now) {
  return load.ejection() == Ejection::none && !load.needs_trial() && load.failure_penalty(now) == 0;
}

}  // namespace

struct OutlierDetector::Census {
  std::size_t members = 0;
  std::size_t fit = 0;
  std::size_t ejected = 0;

  bool in_panic(std::size_t lost = 0) const { return (fit - lost) * 2 < members; }
};

void OutlierDetector::activate(std::string pool, const OutlierSpec& spec,
                               const std::shared_ptr<const Backends>& backends) {
  const std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
  spec_ = spec;
  backends_ = backends;
  consecutive_.store(spec.max_ejected > 0 ? spec.consecutive : 0, std::memory_order_relaxed);
  std::unordered_map<const Load*, Record> records;
  std::unordered_map<const Load*, Totals> totals;
  for (const auto& backend : *backends) {
    const Load* const load = &backend->load();
    if (const auto found = records_.find(load); found != records_.end()) records.insert(*found);
    if (const auto found = totals_.find(load); found != totals_.end()) totals.insert(*found);
  }
  records_ = std::move(records);
  totals_ = std::move(totals);
}

/// Gives up while another thread holds the lock: the next failure tries again.
void OutlierDetector::try_eject(Load& load, Instant now) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto backends = backends_.lock();
  if (backends == nullptr || !has_failed_enough(*backends, load, now) ||
      !may_eject(*backends, load, now)) {
    return;
  }
  eject(load, EjectionReason::consecutive, now);
}

/// It is on trial, or has failed `consecutive` times in a row. Fewer answers of 5xx suffice while
/// every other backend in rotation is free of failures: then no request was at fault.
bool OutlierDetector::has_failed_enough(const Backends& backends, const Load& load,
                                        Instant now) const {
  if (load.ejection() != Ejection::none) return true;
  const std::uint32_t failures = load.failures_in_a_row();
  if (failures >= spec_.consecutive) return true;
  if (load.last_failure().status == 0) return false;  // several may break together
  std::uint64_t picks = 0;
  for (const auto& backend : backends) {
    const Load& other = backend->load();
    if (&other == &load || !other.in_rotation()) continue;
    if (!is_clean(other, now)) return false;
    picks += other.picks_total();
  }
  return picks >= failures;
}

bool OutlierDetector::may_eject(const Backends& backends, const Load& load, Instant now) const {
  if (spec_.max_ejected <= 0 || !is_fit(load)) return false;
  const Census census = count(backends);
  const auto share =
      static_cast<std::size_t>(static_cast<double>(census.members) * spec_.max_ejected);
  if (census.ejected >= std::max<std::size_t>(share, 1) || census.in_panic(1)) return false;

  bool is_here = false;  // a request of an older plan may fail on a backend that was removed
  std::size_t others = 0;
  std::size_t well = 0;
  for (const auto& backend : backends) {
    const Load& other = backend->load();
    is_here = is_here || &other == &load;
    if (&other == &load || !other.in_rotation()) continue;
    ++others;
    well += does_well(other, now);
  }
  return is_here && well > 0 && well * 2 >= others;
}

void OutlierDetector::eject(Load& load, EjectionReason reason, Instant now) {
  Record& record = records_[&load];
  const Duration time = ejection_time(load, record.ejections++);
  record.last = now;
  load.eject(reason, time, now);
}

/// Until its trial, after so many ejections that are not forgotten.
Duration OutlierDetector::ejection_time(const Load& load, std::uint32_t earlier) const {
  const Duration first = std::min(spec_.first_ejection, spec_.ejection);
  if (load.is_probed() || spec_.trials_are_retried) {
    return std::min(first * (1 << std::min(earlier, 20u)), spec_.ejection);
  }
  if (earlier == 0) return first;
  if (earlier == 1) return spec_.ejection;
  return std::max(spec_.ejection, std::min(spec_.ejection * last_ejections, max_ejection));
}

std::uint32_t OutlierDetector::ejections_of(const Load& load) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(&load);
  return found == records_.end() ? 0 : found->second.ejections;
}

void OutlierDetector::restore(Load& load, const LearnedState& learned, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto backends = backends_.lock();
  if (backends == nullptr) return;
  records_[&load] = {.ejections = learned.ejections, .last = now};
  if (!learned.ejected || !may_eject(*backends, load, now)) return;
  load.eject(*learned.ejected, learned.ejected_for, now);
}

OutlierDetector::Census OutlierDetector::count(const Backends& backends) const {
  Census census;
  for (const auto& backend : backends) {
    const Load& load = backend->load();
    if (!is_member(load)) continue;
    ++census.members;
    census.fit += is_fit(load);
    census.ejected += load.is_out(OutOfRotation::ejected);
  }
  return census;
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
  Load& load = backend.load();
  const auto found = records_.find(&load);
  if (found == records_.end()) return;
  Record& record = found->second;
  log_change(backend, record);
  const Ejection ejection = load.ejection();
  if (ejection == Ejection::none) {
    // Its failures were forgotten while another thread ejected it.
    if (load.is_out(OutOfRotation::ejected)) backend.put_back(OutOfRotation::ejected);
    if (now - record.last < std::max<Duration>(min_memory, spec_.ejection)) return;
    record.last = now;
    if (--record.ejections == 0) records_.erase(found);
  } else if (spec_.max_ejected <= 0) {
    load.forget_failures();
    backend.put_back(OutOfRotation::ejected);
  } else if (ejection == Ejection::ejected && is_due(load, record, now)) {
    load.set_ejection(Ejection::half_open, now);
    backend.put_back(OutOfRotation::ejected);
  }
}

/// A real request shall be its trial.
bool OutlierDetector::is_due(const Load& load, const Record& record, Instant now) const {
  if (!load.is_probed()) return now >= load.ejected_until();
  const Duration patience = std::min<Duration>(
      std::max<Duration>(spec_.ejection, spec_.first_ejection) * record.ejections,
      max_probed_ejection);
  return now - record.last >= patience;
}

void OutlierDetector::update_panic(const Backends& backends, Instant now) {
  const bool panics = count(backends).in_panic();
  panics_.store(panics, std::memory_order_relaxed);
  bool ignores = false;
  for (const auto& backend : backends) {
    Load& load = backend->load();
    if (panics && load.ejection() == Ejection::ejected) {
      load.set_ejection(Ejection::ignored, now);
      backend->put_back(OutOfRotation::ejected);
      ignores = true;
    } else if (!panics && load.ejection() == Ejection::ignored) {
      load.set_ejection(Ejection::half_open, now);  // its next outcome decides
    }
  }
  if (ignores) {
    log::warning("pool " + pool_ +
                 ": fewer than half of the backends are fit to serve; ejections are ignored");
  }
}

void OutlierDetector::compare_success_rates(const Backends& backends, Instant now) {
  if (now - window_began_ < window) return;
  window_began_ = now;
  struct Rate {
    Load* load;
    double value;
  };
  std::vector<Rate> rates;
  double sum = 0;
  double squares = 0;
  for (const auto& backend : backends) {
    Load& load = backend->load();
    const Totals ended{.picks = load.picks_total(), .failures = load.failures_total()};
    const Totals began = std::exchange(totals_[&load], ended);
    const std::uint64_t picks = ended.picks - began.picks;
    const std::uint64_t failures = ended.failures - began.failures;
    if (picks < min_requests || !load.in_rotation()) continue;
    const double rate =
        1 - static_cast<double>(std::min(failures, picks)) / static_cast<double>(picks);
    rates.push_back({&load, rate});
    sum += rate;
    squares += rate * rate;
  }
  if (spec_.max_ejected <= 0 || rates.size() < min_backends) return;
  const double mean = sum / static_cast<double>(rates.size());
  const double deviation =
      std::sqrt(std::max(0.0, squares / static_cast<double>(rates.size()) - mean * mean));
  const double least = std::min(mean - max_deviations * deviation, mean - min_gap);
  for (const Rate& rate : rates) {
    if (rate.value < least && may_eject(backends, *rate.load, now)) {
      eject(*rate.load, EjectionReason::success_rate, now);
    }
  }
}

void OutlierDetector::log_change(const Backend& backend, Record& record) const {
  const Ejection now = backend.load().ejection();
  const Ejection before = std::exchange(record.logged, now);
  if (now == before) return;
  const std::string name = "pool " + pool_ + ": " + backend.id();
  if (now == Ejection::ejected) {
    log::warning(name + " is ejected: " + describe_ejection(backend.load()));
  } else if (now == Ejection::none) {
    log::info(name + " is no longer ejected");
  } else if (now == Ejection::half_open) {
    log::info(name + " gets a request as its trial");
  }
}

}  // namespace evenkeel
