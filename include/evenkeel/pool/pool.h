// Pools: interchangeable backends, and the queue in which requests wait for a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/picker/picker.h"
#include "evenkeel/pool/affinity.h"
#include "evenkeel/pool/backend_set.h"
#include "evenkeel/pool/learned_state.h"
#include "evenkeel/pool/lease.h"
#include "evenkeel/pool/pick_log.h"
#include "evenkeel/pool/retry_budget.h"
#include "evenkeel/pool/scheduled_pool.h"
#include "evenkeel/pool/wait_forecast.h"

namespace evenkeel {

class Admission;
class AnswerCache;
class OutlierDetector;
class PoolMaintenance;
struct AdmissionTicket;
struct SubsetQueue;

/// What a version of a pool is built from.
struct PoolSpec {
  PoolConfig config;  ///< of its backends only what `backends` has counts
  /// True if a request that fails as the trial of a backend goes to another one.
  bool retries_trials = false;
  /// True if backends are watched for answering nothing, which checks miss (see SilenceDetector).
  bool notices_silence = false;
  std::vector<BackendSpec> backends;  ///< ids are unique
  std::vector<SubsetSpec> subsets;    ///< that requests may be for, no two alike
};

/// A pool's queue.
struct QueueStats {
  std::uint32_t waiting = 0;  ///< requests, in all versions of the pool
};

/// The part of a pool that all workers share: its backends and its queue.
///
/// Immutable in shape; a reload builds a successor.
/// Thread: any.
class PoolState {
 public:
  /// REQUIRES: the names of the picker and its shadow picker are known. With a predecessor,
  /// backends with the same id keep their counters (with an unchanged spec it is the same object),
  /// and the queue is shared: requests that wait in it compete for the same slots as new ones.
  static std::shared_ptr<PoolState> build(PoolSpec spec, const PoolState* predecessor = nullptr);

  PoolState(const PoolState&) = delete;
  ~PoolState();

  const PoolSpec& spec() const { return spec_; }
  const PoolConfig& config() const { return spec_.config; }
  const Backends& backends() const { return *backends_; }
  const BackendSet& backend_set() const { return *backend_set_; }

  /// Requests in flight on this pool's backends.
  std::uint64_t in_flight() const;
  /// Slots in use over all slots, 0..1; 0 when a backend has no limit.
  double saturation_ratio() const;
  /// Number of backends that are in rotation and can be connected, as far as known.
  std::size_t available(Instant now) const;
  QueueStats queue() const;
  /// True if requests wait where no backend is up, since what scales the pool starts its first one.
  bool starts_from_zero() const {
    return config().scaling && (config().scaling->min == 0 || backends().empty());
  }
  /// The time in which the backends that the request is for, all of the pool or a subset, complete
  /// what waits for them and this request, as fast as they did lately.
  Duration wait_for(const Hint& hint) const;
  /// True if fewer than half of the backends are fit to serve, so that ejections are ignored.
  bool panics() const;
  RetryBudget& retry_budget() const { return *retry_budget_; }
  /// Null if the pool has no scheduler.
  const std::shared_ptr<const ScheduledPool>& scheduled() const { return scheduled_; }
  /// The picks that were recorded: see Hint::explained_id.
  PickLog& picks() const { return *picks_; }
  /// The answers that the pool keeps; null: it keeps none.
  const std::shared_ptr<AnswerCache>& answers() const { return answers_; }
  /// Null if the pool does not pin sessions.
  Affinity* affinity() const { return affinity_.get(); }

  /// Makes this the active configuration of the pool: its limits apply to queued requests too.
  void activate() const;
  /// Periodic maintenance: moves standby backends in and out of rotation, ejects and readmits
  /// backends, ramps them up, notices silent ones, learns weights. What it has learned passes to
  /// the successor; once there is one, only the successor is ticked. Thread: the control thread,
  /// about ten times a second.
  void tick(Instant now);
  /// What was learned of one of its backends. Thread: the control thread.
  LearnedState learned(const Backend& backend, Instant now) const;
  /// Continues with what another process has learned of a backend of the same id; ejects it again
  /// only as far as the pool's limits allow. REQUIRES: after `activate`. Thread: the control
  /// thread.
  void restore(const Backend& backend, const LearnedState& learned, Instant now) const;

  // ---- for Pool and Admission ----

  Admission& admission() const { return *admission_; }
  /// Where requests with this hint wait: by their subset; if they are pinned to a backend, by that
  /// of the backend.
  SubsetQueue& queue_of(const Hint& hint) const;
  /// True if the scheduler of the pool places the request.
  bool schedules(const Hint& hint) const { return hint.cost != nullptr && scheduled_ != nullptr; }
  std::unique_ptr<Picker> new_picker(std::uint64_t seed) const { return picker_factory_(seed); }
  /// Null if the pool has no shadow picker.
  std::unique_ptr<Picker> new_shadow_picker(std::uint64_t seed) const {
    return shadow_factory_ ? shadow_factory_(seed) : nullptr;
  }

 private:
  PoolState();

  void make_queues(const PoolState* predecessor);

  PoolSpec spec_;
  std::shared_ptr<const Backends> backends_;
  std::optional<BackendSet> backend_set_;  // always, once it is built
  // The queues of the pool, then of each subset; the second ones only with a scheduler.
  std::vector<std::unique_ptr<SubsetQueue>> queues_;
  std::vector<std::unique_ptr<SubsetQueue>> scheduled_queues_;
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<OutlierDetector> outlier_detector_;
  std::shared_ptr<RetryBudget> retry_budget_;
  std::shared_ptr<WaitForecast> wait_forecast_;
  std::shared_ptr<PoolMaintenance> maintenance_;
  std::shared_ptr<PickLog> picks_;
  std::unique_ptr<Affinity> affinity_;
  std::shared_ptr<AnswerCache> answers_;
  std::shared_ptr<const ScheduledPool> scheduled_;
  PickerFactory picker_factory_;
  PickerFactory shadow_factory_;  // empty: none
};

/// One worker's view of a pool.
///
/// Thread: the loop's. REQUIRES: outlives the tasks of `acquire`; leases may outlive it.
class Pool {
 public:
  /// A different `seed` for every worker.
  Pool(std::shared_ptr<PoolState> state, Loop& loop, std::uint64_t seed);

  /// A slot on one of the backends. While one is free it neither suspends nor allocates. When all
  /// backends are full the request queues, by priority, until `deadline` or the queue's timeout
  /// (see Admission). Dropping the task leaves the queue.
  ///
  /// A request for a subset queues for its backends only. While none of these is in rotation, or
  /// the request has tried them all, it goes to the others.
  ///
  /// A request of a session goes to the backend of the session, and waits for a slot of that one
  /// while it holds (docs/balancing.md). If it is excluded, the session moves to the backend that
  /// is picked; a sequence gets `no_backend`.
  ///
  /// Where the pool starts from zero, a request that was not tried anywhere also waits while no
  /// backend is in rotation, unless all of them are drained.
  ///
  /// Errors, all with Side::proxy: `no_backend` (none outside `hint.excluded` is in rotation),
  /// `queue_full`, `queue_timeout`.
  Task<Result<Lease>> acquire(const Hint& hint, Instant deadline = never);

  /// See Picker::key_of; by the picker for what `hint` says of subsets, or by the shadow picker:
  /// the pickers beside it know no keys.
  std::optional<std::uint64_t> key_of(const Hint& hint, const PromptBeginning& prompt) const {
    if (shadow_picker_ != nullptr) return shadow_picker_->key_of(prompt);
    return picker_for(hint).key_of(prompt);
  }

  /// A request of the session was answered by the backend that it was placed on: see
  /// AffinityTable::confirm. REQUIRES: the pool pins sessions.
  void confirm_session(const SessionHint& session, const Backend& backend);

  /// A later version has taken this one's place on this loop: what waits here and has not been
  /// tried anywhere goes on in its queue, as soon as one of its backends may take it. So a lease
  /// may be of a backend that this version does not have. Null: what waits stays.
  void hand_queue_to(const Pool* successor);

  /// Has the session follow the request to the backend of its slot.
  Lease followed(Lease lease, const SessionHint& session) const;

  const PoolState& state() const { return *state_; }

 private:
  Task<Result<Lease>> acquire_elsewhere(const Hint& hint, Instant deadline);
  Task<Result<Lease>> wait_in_subset(Hint hint, Instant deadline);
  Task<Result<Lease>> acquire_for_session(const Hint& hint, Instant deadline);
  Task<Result<Lease>> acquire_for_soft_session(Hint hint, Instant deadline);
  Task<Result<Lease>> follow_when_placed(Task<Result<Lease>> placed, SessionHint session);
  const BackendPtr* home_of(const Hint& hint, const SessionHint& session) const;
  bool is_saturated(const Backend& backend) const;
  Error session_lost_error() const;
  Task<Result<Lease>> wait_for_pinned(Hint hint, const SharedBackend& pinned, Instant deadline);
  Task<Result<Lease>> wait_and_pin(Hint hint, Instant deadline);
  Task<Result<Lease>> queue_up(const Hint& hint, Instant deadline);
  Task<Result<Lease>> wait(std::shared_ptr<AdmissionTicket> ticket, Instant deadline);
  std::optional<Error> end_of_wait(const AdmissionTicket& ticket, Instant began) const;
  void sample(AdmissionTicket& ticket);
  class PacedWait;
  Task<void> keep_pace();

  const BackendPtr* pick_backend(const Hint& hint);
  void explain_session(const Hint& hint, const Backend& backend) const;
  Picker& picker_for(const Hint& hint) const { return *pickers_[hint.subset]; }
  Error no_backend_error() const { return no_backend_error(*state_); }
  Error no_backend_error(const PoolState& pool) const;

  std::shared_ptr<PoolState> state_;
  Loop& loop_;
  std::vector<std::unique_ptr<Picker>> pickers_;  // of the pool, then of each subset
  std::unique_ptr<Picker> shadow_picker_;         // null: none
  std::uint32_t unsampled_ = 0;                   // requests since the last sample
  std::weak_ptr<const PoolState> successor_;
  std::uint32_t waiting_here_ = 0;  // for their scheduler
  bool keeps_pace_ = false;
  Task<void> pace_;
};

}  // namespace evenkeel
