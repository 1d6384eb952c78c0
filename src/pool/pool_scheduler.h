// The scheduler of a pool whose picker is `expected-time`, shared by all workers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/pool/placed_request.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/scheduler.h"
#include "pool/admission.h"
#include "pool/decision_log.h"

namespace evenkeel {

/// The adapter that each name by which requests ask for one stands for, as hashes.
using AdapterNames = std::unordered_map<std::uint64_t, std::uint64_t>;

/// A decision and the backends of its candidates, as copied under the lock.
struct CopiedDecision {
  Decision decision;
  std::array<BackendPtr, Decision::max_candidates> backends{};

  ExplainedDecision explained() const;
};

/// A Scheduler behind the lock of its pool's Admission, which is held for microseconds: for an
/// arrival, for an event of a response, and for a pass over what waits. It is the rule that starts
/// the requests whose costs are predicted. Versions of a pool share it.
///
/// Thread: any.
class PoolScheduler final : public AdmissionRule, private Scheduler::Capacity {
 public:
  /// Makes one that has room for several versions of a pool with so many backends.
  PoolScheduler(const SchedulerOptions& options, std::size_t backends,
                std::shared_ptr<Admission> admission);

  /// True if there is room for these backends beside the present ones, and the index has this size.
  bool fits(const SchedulerOptions& options, const Backends& backends) const;
  void configure(const SchedulerOptions& options);

  /// Gives the backends of a version of the pool their slots, in their order; one that another
  /// version has too keeps its slot. REQUIRES: `fits`.
  std::vector<std::uint32_t> join(const Backends& backends);
  /// The version of the pool is gone, and with it all its requests.
  void leave(const Backends& backends);

  void arrive(AdmissionTicket& ticket, Picker* picker, Instant now) override;
  void leave(AdmissionTicket& ticket, bool moves, Instant now) override;
  void recheck(AdmissionTicket&, Instant) override {}  // `pass` serves all
  /// Starts what can start now. Does nothing if the last pass was a moment ago.
  void pass(Instant now);
  /// Reads what the engines have reported. Thread: the control thread.
  void tick(Instant now);

  /// `shadow`: of one version of the pool, or null.
  SchedulerStats stats(const ShadowStats* shadow) const;
  /// See ScheduledPool.
  std::vector<ExplainedDecision> decisions(std::string_view name) const;
  std::optional<ExplainedDecision> last_decision(std::string_view name,
                                                 std::uint64_t request) const;
  /// Nothing if the backend has no slot.
  std::optional<BackendForecast> forecast(const SharedBackend& shared, Instant now) const;

  // ---- What outlives the process (pool_learned.cc) ----

  /// See ScheduledPool. Holds the lock for some microseconds at a time.
  LearnedScheduler learned(std::size_t max_prefixes, Instant now);
  void restore(const LearnedScheduler& learned, Instant now);
  /// Restores what another scheduler of this process has learned, whose backends may be in use; of
  /// its prefixes the newest 2^20 blocks. Those take a second.
  void continue_from(PoolScheduler& former);
  /// Gives up the prefix index. No request will arrive any more but those that were on their way,
  /// whose hits no longer matter. The result owns the memory; its release may take a second.
  std::shared_ptr<const void> release_index();
  /// Forgets what the backend has cached: it may have returned as another server.
  void forget_caches(const SharedBackend& shared);

 private:
  friend class PlacedRequest;

  struct Slot {
    BackendPtr backend{};  // in any version: they share a SharedBackend
    std::uint32_t users = 0;
    Instant reported_at{};           // the last report that is known
    std::uint64_t cache_clears = 0;  // of the engine, that are known
    std::uint64_t pages = 0;         // EngineState::reports, likewise
    std::uint64_t offered = 0;       // EngineState::offered_revision, likewise
    /// When the caches that another process knew of are forgotten, unless the engine has told by
    /// then that it has not restarted.
    Instant confirm_until = never;
  };

  Instant in_order(Instant now);
  void pass_locked(Instant now);
  bool try_acquire(std::uint32_t slot) override;
  void read_states(Instant now);
  bool read_reports(Instant now);
  void forget_unconfirmed(std::uint32_t slot, Instant now);
  std::vector<std::pair<std::uint32_t, BackendPtr>> taken_slots() const;
  bool knows_clears_of(std::uint32_t slot, const BackendPtr& backend) const;
  bool has(std::uint32_t slot, const BackendPtr& backend) const;
  void copy_prefixes(std::uint32_t slot, const BackendPtr& backend, std::size_t most,
                     std::vector<std::uint64_t>& into);
  void restore_prefixes(std::uint32_t slot, const std::vector<std::uint64_t>& blocks);
  void measure_busy(Instant now);

  // ---- LoRA adapters (pool_adapters.cc) ----
  /// The engine's page is new: of that time.
  void read_adapters(std::uint32_t slot, Instant as_of);
  bool adapter_names_changed();
  /// What engines offer or use are names of adapters. REQUIRES: the lock is not held.
  void learn_adapter_names();

  Arrival arrival_of(const AdmissionTicket& ticket) const;
  void end_placing(const PlacedRequest& request);

  // ---- records of decisions (pool_decisions.cc) ----
  /// Null: none is to be made, or there is no room.
  Decision* begin_record(const AdmissionTicket& ticket);
  /// Others may take its place.
  void end_record(PlacedRequest& request);
  static void compare_with_shadow(const Decision& decision, ShadowStats& stats);
  void copy(const Decision& decision, CopiedDecision& copied) const;

  const std::shared_ptr<Admission> admission_;
  std::mutex& mutex_;         // its own
  std::mutex learned_mutex_;  // one copy at a time; taken before the other
  Scheduler scheduler_;
  const std::uint32_t capacity_;  // slots
  const std::size_t index_bytes_;
  std::vector<Slot> slots_;
  std::uint32_t used_slots_ = 0;  // up to the last one that a backend has
  std::unordered_map<const SharedBackend*, std::uint32_t> slot_of_;
  Instant last_time_{};
  Instant last_pass_{};
  std::vector<AdmissionTicket*> waiting_;  // by number of the scheduler; others are void
  /// Fewer events than this do not tell how many tokens each has.
  static constexpr std::uint32_t min_learned_events = 8;
  double tokens_per_event_ = 1;  // of streams: more with speculative decoding

  AdapterNames adapter_names_;
  bool knows_adapter_names_ = true;  // all that engines have told; the control thread's
  Instant last_tick_{};
  SchedulerStats stats_;
  static constexpr std::size_t kept_decisions = 128;  // in each of the two:
  DecisionLog asked_;
  DecisionLog samples_;  // apart: they do not push out what a client asks for
  std::uint64_t records_ = 0;
};

}  // namespace evenkeel
