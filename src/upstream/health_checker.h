// Periodic health checks of one backend, which decide whether it is in rotation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/health_record.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "upstream/health_probe.h"
#include "upstream/rise_fall_counter.h"

namespace evenkeel {

/// Checks one backend until it is destroyed, and takes it out of rotation or puts it back.
///
/// Runs one check at a time. The connection is kept between checks; while requests fail, or results
/// contradict the state, each check opens a new one. The interval between checks has 10 % jitter,
/// and is shorter while results contradict the state, unless the server is slow. A check that times
/// out is ignored while the server answers requests: it is busy, not down. A token that times out
/// counts nevertheless if the pool has several models: responses of the others prove nothing about
/// this one.
///
/// Thread: the loop's.
class HealthChecker {
 public:
  /// Called with the first result, and when the state changes. May not destroy the checker.
  using OnChange = std::function<void(const HealthRecord&)>;

  /// The first check starts at once. `serving`: the backend is in rotation, and stays so until
  /// checks fail; otherwise it stays out of rotation until its first check has passed.
  /// REQUIRES: resolved_check_kind(spec) is neither `automatic` nor `off`.
  HealthChecker(Loop& loop, std::uint64_t seed, HealthCheckSpec spec, ServerAccess access,
                BackendPtr backend, bool serving, OnChange on_change);
  HealthChecker(const HealthChecker&) = delete;
  HealthChecker& operator=(const HealthChecker&) = delete;
  /// Leaves the backend in or out of rotation, as it is.
  ~HealthChecker();

  /// Applies from the next check on, which comes at once if the addresses differ; a check that is
  /// running ends then. Results and counts are kept. `backend` shares the state of
  /// the one before.
  void update(HealthCheckSpec spec, ServerAccess access, BackendPtr backend);
  /// Checks now, unless a check is running.
  void check_now();
  /// Checks now if there is a reason: workers could not connect, requests have failed, or the
  /// server has closed the connection that was kept for the next check. A few instructions: call it
  /// often.
  void check_triggers();

  const HealthRecord& record() const { return record_; }
  /// True if the server is down and does not answer; false if it answers that it cannot serve.
  bool silent() const;
  /// How often a check over a new connection passed after one that failed: the server is well, but
  /// older connections to it may be dead.
  std::uint32_t recoveries() const { return recoveries_; }
  /// Changes whenever `record()` changes.
  std::uint64_t revision() const { return revision_; }

 private:
  Task<void> run();
  void restart();
  Task<void> check();
  Task<void> probe_ejected(HealthProbe& probe);
  bool token_is_due() const;
  void track_idle_link(bool passed);
  void apply_result(CheckOutcome outcome, bool busy);
  void track_restart(CheckResult result);
  void enter_state(HealthState state);
  void apply_to_backend();
  bool needs_new_connection(const HealthProbe& probe);
  Duration next_delay();

  Loop& loop_;
  Rng rng_;
  std::shared_ptr<HealthProbe> probe_;
  BackendPtr backend_;
  RiseFallCounter rise_fall_;
  OnChange on_change_;
  HealthRecord record_;
  std::uint64_t revision_ = 0;
  std::uint32_t recoveries_ = 0;
  bool reported_ = false;  // the first state
  bool refused_ = false;   // connections, since its last pass
  bool jittered_ = false;  // the second check has had its random delay
  bool checking_ = false;
  Instant last_check_{};             // end of the last check
  Instant last_token_{};             // when it last generated a token
  bool in_backoff_ = false;          // at the last check_triggers
  std::uint64_t seen_errors_;        // errors of requests, at the last check_triggers
  bool requests_failed_ = false;     // since the last check
  bool has_idle_link_ = false;       // the last check left a connection open
  bool idle_link_lost_ = false;      // the server has closed it since
  bool server_closes_idle_ = false;  // closes say nothing: a healthy server did so too
  Signal wake_now_;
  MethodWaiter<&HealthChecker::restart> restart_{*this};
  Task<void> run_;
};

}  // namespace evenkeel
