// Pools: interchangeable backends, and the queue in which requests wait for a slot.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/picker/picker.h"
#include "evenkeel/pool/affinity_table.h"
#include "evenkeel/pool/learned_state.h"
#include "evenkeel/pool/lease.h"
#include "evenkeel/pool/retry_budget.h"
#include "evenkeel/pool/subset.h"
#include "evenkeel/pool/wait_forecast.h"
#include "evenkeel/scheduler/decision.h"
#include "evenkeel/scheduler/learned_scheduler.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

class Admission;
class Affinity;
class OutlierDetector;
class PoolMaintenance;
class ScheduledPool;
struct AdmissionTicket;
struct SubsetQueue;

/// When a backend whose requests fail is ejected: taken out of rotation for a while.
struct OutlierSpec {
  std::uint32_t consecutive = 5;  ///< failures in a row; 0: they eject no backend
  Duration first_ejection = std::chrono::seconds(2);
  /// The second ejection, where a trial costs a client its request: later ones take ten times as
  /// long. Elsewhere the longest one: each takes twice as long as the last.
  Duration ejection = std::chrono::seconds(30);
  bool trials_are_retried = false;  ///< a request that fails as a trial goes to another backend
  double max_ejected = 0.5;  ///< share of the backends, 0..1, but at least one; 0: none is ejected

  bool operator==(const OutlierSpec&) const = default;
};

/// What the configuration says of a pool.
struct PoolSpec {
  std::string name;
  PickerConfig picker;
  QueueConfig queue;  ///< its size is that of each subset, and of the pool as a whole
  StandbyConfig standby;
  OutlierSpec outlier;
  /// True if backends are watched for answering nothing, which checks miss (see SilenceDetector).
  bool notices_silence = false;
  std::optional<AffinityConfig> affinity;  ///< none: requests of a session go anywhere
  Duration slow_start{};  ///< how long a backend that returns or joins is ramped up; 0: not at all
  double retry_budget = RetryConfig{}.budget;
  /// When a pool without any backend may have one again: two health checks.
  Duration recovery_time = std::chrono::seconds(1);
  std::vector<BackendSpec> backends;  ///< ids are unique
  std::vector<SubsetSpec> subsets;    ///< that requests may be for, no two alike
};

/// Counters of a pool's queue since the pool was first configured.
struct QueueStats {
  std::uint32_t waiting = 0;  ///< now
  /// Waits that ended with a slot. One that goes on in a later version of the pool is one wait.
  std::uint64_t waited_total = 0;
  Duration waited_sum{};              ///< of those
  std::uint64_t full_total = 0;       ///< refused because the queue was full
  std::uint64_t displaced_total = 0;  ///< of these, after waiting: a more urgent one took the place
  std::uint64_t timeout_total = 0;    ///< ended by the timeout
  /// Dropped while waiting: the client left, or no backend is left.
  std::uint64_t abandoned_total = 0;
};

/// Choices of a pool's shadow picker beside those of its scheduler, at the same time and by the
/// scheduler's prices, since the pool has had this shadow picker and this scheduler.
struct ShadowStats {
  std::uint64_t compared_total = 0;
  std::uint64_t agreed_total = 0;       ///< of these: the same backend
  std::uint64_t unavailable_total = 0;  ///< choices that the scheduler may not use: no comparison
  Duration regret_sum{};                ///< by how much its choices cost more, where they cost more
  Duration gain_sum{};                  ///< by how much they cost less, where they do
};

/// What the scheduler of a pool has done since it was made.
struct SchedulerStats {
  std::uint64_t placed_total = 0;
  std::uint64_t refused_total = 0;       ///< their first token would have come too late
  std::uint64_t first_tokens_total = 0;  ///< of placed ones; the sums below are of these
  Duration predicted_ttft_sum{};         ///< from when they were sent
  Duration ttft_sum{};                   ///< likewise, as it was
  Duration ttft_error_sum{};             ///< differences of the two, without sign
  /// Predicted, of requests that were placed or refused: the time that engines compute their
  /// prompts, and the time that their outputs are decoded.
  Duration prefill_sum{};
  Duration decode_sum{};
  std::size_t index_bytes = 0;  ///< memory of the prefix index
  /// Share of the last seconds, 0..1, in which the backends that serve computed prompts; all of the
  /// time in which requests had to wait.
  double busy_ratio = 0;
  std::optional<ShadowStats> shadow;  ///< none without a shadow picker
};

/// What the scheduler expects of one backend.
struct BackendForecast {
  Rung rung = Rung::cold;
  Duration wait{};  ///< until a prompt that is sent now is begun
  Scheduler::CachedTokens cached_tokens{};
};

/// The part of a pool that all workers share: its backends and its queue.
///
/// Immutable in shape; a reload builds a successor.
/// Thread: any.
class PoolState {
 public:
  /// REQUIRES: the names of `spec.picker` and its shadow picker are known. With a predecessor,
  /// backends with the same id keep their counters (with an unchanged spec it is the same object),
  /// and the queue is shared: requests that wait in it compete for the same slots as new ones.
  static std::shared_ptr<PoolState> build(PoolSpec spec, const PoolState* predecessor = nullptr);

  PoolState(const PoolState&) = delete;
  ~PoolState();

  const PoolSpec& spec() const { return spec_; }
  const Backends& backends() const { return *backends_; }
  const std::vector<Subset>& subsets() const { return subsets_; }
  /// What Hint::subset and Hint::session_subset call it; 0: the whole pool, or none of its subsets.
  std::uint32_t subset_number(const SubsetSpec& subset) const;

  /// Requests in flight on this pool's backends.
  std::uint64_t in_flight() const;
  /// Slots in use over all slots, 0..1; 0 when a backend has no limit.
  double saturation_ratio() const;
  /// Number of backends that are in rotation and can be connected, as far as known.
  std::size_t available(Instant now) const;
  QueueStats queue() const;
  bool has_waiting() const;
  /// None if the pool has no scheduler.
  std::optional<SchedulerStats> scheduler_stats() const;
  /// None if the pool has no scheduler.
  std::optional<BackendForecast> forecast(const Backend& backend, Instant now) const;
  /// What is recorded of the requests of this name (Arrival::name), in order of their arrival: of
  /// all attempts, but no more than the 16 that came last.
  std::vector<ExplainedDecision> decisions(std::string_view name) const;
  /// The decision on the last attempt of the request (Arrival::request); nothing if it is not kept.
  std::optional<ExplainedDecision> last_decision(std::string_view name,
                                                 std::uint64_t request) const;
  /// None if the pool does not pin sessions.
  std::optional<AffinityStats> affinity_stats() const;
  /// True if one of the pool's backends, up or not, alone knows what the session is about.
  /// REQUIRES: the pool pins sessions.
  bool knows(std::uint64_t session, Instant now) const;
  /// The pins for what an answer of the backend names. REQUIRES: the pool pins sessions.
  AnswerPins answer_pins(const Backend& backend) const;
  /// True if fewer than half of the backends are fit to serve, so that ejections are ignored.
  bool panics() const;
  RetryBudget& retry_budget() const { return *retry_budget_; }
  /// The time in which the backends that the request is for, all of the pool or a subset, complete
  /// what waits for them and this request, as fast as they did lately.
  Duration wait_for(const Hint& hint) const;

  /// Makes this the active configuration of the pool: its limits apply to queued requests too.
  void activate() const;
  /// The successor, or nothing (null), takes this one's place. If it pins no sessions, requests
  /// that are still here have none either.
  void leave(const PoolState* successor) const;
  /// The memory of pins that no thread looks at once it has done something else since `activate` or
  /// `leave`; null: there is none.
  std::shared_ptr<const void> release_sessions() const;
  /// The successor, or nothing (null), has taken this one's place. If it does not go on with the
  /// scheduler of this one, requests that are still here no longer need that one's prefix index:
  /// the result owns its memory. Else null.
  std::shared_ptr<const void> release_index(const PoolState* successor) const;
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

  /// What the scheduler of the pool has learned; nothing without one. `max_prefixes`: blocks of its
  /// prefix index, of each backend an equal share; copying many takes a while. Thread: any.
  std::optional<LearnedScheduler> learned_scheduler(std::size_t max_prefixes, Instant now) const;
  /// Continues with what another process has learned. REQUIRES: after `activate`, before the first
  /// request and the first report of an engine. Thread: the control thread.
  void restore(const LearnedScheduler& learned, Instant now) const;
  /// The sessions that are pinned now; none if the pool does not pin any. Thread: any.
  std::vector<AffinityTable::Saved> saved_sessions(Instant now) const;
  void restore(std::span<const AffinityTable::Saved> sessions, Instant now) const;
  /// The first checks have ended. What does not serve may return as another server: what its caches
  /// had is forgotten. Thread: the control thread.
  void forget_caches_of_absent() const;

  // ---- for Pool and Admission ----

  Admission& admission() const { return *admission_; }
  /// Where requests with this hint wait: by their subset; if they are pinned to a backend, by that
  /// of the backend.
  SubsetQueue& queue_of(const Hint& hint) const;
  /// True if the scheduler of the pool places the request.
  bool schedules(const Hint& hint) const { return hint.cost != nullptr && scheduled_ != nullptr; }
  /// The number of one of its subsets in another version. Nothing: that has none of these labels.
  std::optional<std::uint32_t> subset_in(const PoolState& other, std::uint32_t number) const;
  /// Null if the pool has no scheduler.
  const std::shared_ptr<const ScheduledPool>& scheduled() const { return scheduled_; }
  /// Null if the pool does not pin sessions.
  const Affinity* affinity() const { return affinity_.get(); }
  std::unique_ptr<Picker> new_picker(std::uint64_t seed) const { return picker_factory_(seed); }
  /// Null if the pool has no shadow picker.
  std::unique_ptr<Picker> new_shadow_picker(std::uint64_t seed) const {
    return shadow_factory_ ? shadow_factory_(seed) : nullptr;
  }
  /// The backends that a request with this hint is for.
  const Backends& backends_for(const Hint& hint) const {
    return hint.subset == 0 ? *backends_ : subsets_[hint.subset - 1].backends();
  }
  bool in_subset(std::uint32_t subset, const Backend& backend) const;
  /// True if the pin of the request's session to this backend counts: the session does not begin
  /// anew, and the route lets it stay. No route moves a session whose state is there.
  bool counts_pin(const Hint& hint, const Backend& backend) const {
    if (hint.session->has_state) return !hint.session->starts;
    return hint.session_subset == 0 || in_subset(hint.session_subset, backend);
  }
  /// The backend with these counters, if it is in the subset; else null.
  const BackendPtr* find(const SharedBackend& shared, std::uint32_t subset) const;
  /// True if a backend that the request has not tried can take it now, when it has a free slot, or
  /// when the pool activates its standby backends. In a subset: if one is in rotation.
  bool may_become_available(const Hint& hint) const;
  /// True if the backend that `hint` is pinned to keeps its sessions, or there is none. REQUIRES:
  /// it is one of this pool's, or `hint` is pinned to none.
  bool pin_holds(const Hint& hint, Instant now) const;
  /// True if a backend that the request has not tried is in rotation and not deprioritized.
  bool has_available(const Hint& hint, Instant now) const;
  /// True if the backend is in back-off or over the memory guard: avoided while another is there.
  bool deprioritized(const SharedBackend& shared, Instant now) const;
  bool over_memory_guard(const SharedBackend& shared) const;

 private:
  PoolState();

  void make_pickers(const PoolSpec& spec, const PoolState* predecessor);
  void make_queues(const PoolState* predecessor);

  PoolSpec spec_;
  std::shared_ptr<Backends> backends_;
  std::unordered_map<const SharedBackend*, std::size_t> index_;
  std::vector<Subset> subsets_;
  // The queues of the pool, then of each subset; the second ones only with a scheduler.
  std::vector<std::unique_ptr<SubsetQueue>> queues_;
  std::vector<std::unique_ptr<SubsetQueue>> scheduled_queues_;
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<OutlierDetector> outlier_detector_;
  std::shared_ptr<RetryBudget> retry_budget_;
  std::shared_ptr<WaitForecast> wait_forecast_;
  std::shared_ptr<PoolMaintenance> maintenance_;
  std::unique_ptr<Affinity> affinity_;
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
