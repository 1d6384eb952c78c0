// Ejects backends whose requests fail, and lets them return.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "evenkeel/backend/backend.h"
#include "evenkeel/backend/backend_observers.h"
#include "evenkeel/pool/pool.h"
#include "pool/backend_records.h"

namespace evenkeel {

/// Ejects a backend at once when it has failed `consecutive` requests in a row, or three fifths of
/// that while no other backend has failed lately; or on the tick when far fewer of its requests
/// succeed than of the other backends'. Failures that most of the others share are not the
/// backend's: it stays. So does the last backend, and all beyond `max_ejected`.
///
/// An ejected backend returns on trial: after a probe of its health checker, or in time. In a pool
/// with fewer than half of its backends fit, ejections are ignored: the pool panics.
///
/// Source: Envoy's outlier detection and panic threshold, with its success rate formula.
/// Thread: any, except where noted. Locks only when a backend may have to be ejected.
class OutlierDetector final : public FailureObserver {
 public:
  /// Applies to these backends from now on. Thread: the control thread.
  void activate(const PoolSpec& spec, const std::shared_ptr<const Backends>& backends);

  void on_failure(SharedBackend& shared, Instant now) override {
    const BackendState& state = shared.state;
    if (state.is_out(OutOfRotation::ejected) || panics()) return;
    const std::uint32_t limit = least_failures(consecutive_.load(std::memory_order_relaxed));
    const bool on_trial = state.why() == Avoidance::ejected;
    if (on_trial || (limit != 0 && state.failures_in_a_row() >= limit)) try_eject(shared, now);
  }

  /// How often the backend was ejected lately: it counts for the time of the next ejection. Thread:
  /// the control thread.
  std::uint32_t ejections_of(const SharedBackend& shared);
  /// Continues with the ejections that another process has counted, and ejects the backend again if
  /// it was ejected and may be. Thread: the control thread.
  void restore(SharedBackend& shared, const LearnedState& learned, Instant now);

  /// Ends ejections, compares success rates, logs. Thread: the control thread, ten times a second.
  void tick(Instant now);

  bool panics() const { return panics_.load(std::memory_order_relaxed); }

 private:
  enum class Stage : std::uint8_t { none, ejected, on_trial };
  /// What is remembered of a backend between ejections.
  struct Record {
    std::uint32_t ejections = 0;  // the time grows with each; forgotten one by one
    Instant last{};               // the last ejection, or the last time that one was forgotten
    Stage logged = Stage::none;
  };
  /// The counters of a backend when the window for success rates began.
  struct Totals {
    std::uint64_t picks = 0;
    std::uint64_t failures = 0;
  };
  struct FitCounts;

  /// Failures in a row that eject a backend whose peers are free of failures.
  static constexpr std::uint32_t least_failures(std::uint32_t consecutive) {
    return (consecutive * 3 + 4) / 5;
  }

  void try_eject(SharedBackend& shared, Instant now);
  bool has_failed_enough(const Backends& backends, const SharedBackend& shared, Instant now) const;
  bool may_eject(const Backends& backends, const SharedBackend& shared, Instant now) const;
  void eject(SharedBackend& shared, EjectionReason reason, Instant now);
  Duration ejection_time(const SharedBackend& shared, std::uint32_t earlier) const;
  bool is_fit(const BackendState& state) const;
  FitCounts count(const Backends& backends) const;
  void maintain(const Backend& backend, Instant now);
  bool is_due(const SharedBackend& shared, const Record& record, Instant now) const;
  void update_panic(const Backends& backends, Instant now);
  void compare_success_rates(const Backends& backends, Instant now);
  void log_change(const Backend& backend, Record& record) const;

  std::atomic<std::uint32_t> consecutive_{0};  // 0: failures in a row eject no backend
  std::atomic<bool> panics_{false};
  std::mutex mutex_;  // of all below
  std::string pool_;
  OutlierConfig config_;
  std::chrono::milliseconds check_interval_{};  // the first ejection lasts as long
  bool retries_trials_ = false;                 // PoolSpec::retries_trials
  std::weak_ptr<const Backends> backends_;
  BackendRecords<Record> records_;  // of backends that were ejected
  BackendRecords<Totals> totals_;
  Instant window_began_{};
};

}  // namespace evenkeel
