// One version of a pool, as its scheduler knows it (picker `expected-time`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/scheduler/decision.h"
#include "evenkeel/scheduler/learned_scheduler.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

class Admission;
class PoolScheduler;

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
  Duration work_sum{};              ///< see Scheduler::Placement
  std::uint64_t arrived_total = 0;  ///< placed, refused, or waiting, or their clients left
  double work_capacity = 0;         ///< see Scheduler::capacity
  std::size_t index_bytes = 0;      ///< memory of the prefix index
  /// Share of the last seconds, 0..1, in which the backends that serve computed prompts; all of the
  /// time in which requests had to wait.
  double busy_ratio = 0;
  std::optional<ShadowStats> shadow;  ///< none without a shadow picker
};

/// The scheduler of a pool, which all its versions share, and the slots that the backends of one
/// version have there.
///
/// Thread: any, except where noted.
class ScheduledPool {
 public:
  /// `predecessor`: of the former version, or null. REQUIRES: `config.picker.has_scheduler()`.
  ScheduledPool(const PoolConfig& config, std::shared_ptr<const Backends> backends,
                const std::shared_ptr<Admission>& admission, const ScheduledPool* predecessor);
  ScheduledPool(const ScheduledPool&) = delete;
  ScheduledPool& operator=(const ScheduledPool&) = delete;
  ~ScheduledPool();

  SchedulerStats stats() const;
  /// Nothing if the backend is not one of the pool's.
  std::optional<BackendForecast> forecast(const Backend& backend, Instant now) const;
  /// What is recorded of the requests of this name (RequestCost::name), in order of their arrival:
  /// of all attempts, but no more than the 16 that came last.
  std::vector<ExplainedDecision> decisions(std::string_view name) const;
  /// The decision on the last attempt of the request (RequestCost::request); nothing if it is not
  /// kept.
  std::optional<ExplainedDecision> last_decision(std::string_view name,
                                                 std::uint64_t request) const;

  /// What the scheduler has learned. `max_prefixes`: blocks of its prefix index, of each backend an
  /// equal share; copying many takes a while.
  LearnedScheduler learned(std::size_t max_prefixes, Instant now) const;
  /// Continues with what another process has learned. REQUIRES: after `activate`, before the first
  /// request and the first report of an engine. Thread: the control thread.
  void restore(const LearnedScheduler& learned, Instant now) const;
  /// The first checks have ended. What does not serve may return as another server: what its caches
  /// had is forgotten. Thread: the control thread.
  void forget_caches_of_absent() const;

  /// Makes this version's options the ones that apply.
  void activate() const;
  /// The successor, or nothing (null), has taken this one's place. If it does not go on with the
  /// scheduler of this one, requests that are still here no longer need that one's prefix index:
  /// the result owns its memory. Else null.
  std::shared_ptr<const void> release_index(const ScheduledPool* successor) const;

  // ---- for Pool and PoolScheduler ----

  PoolScheduler& scheduler() const { return *scheduler_; }
  /// The slots of the backends, by index.
  const std::vector<std::uint32_t>& slots() const { return slots_; }
  /// Null without a shadow picker. Guarded by the scheduler's lock.
  ShadowStats* shadow_stats() const { return shadow_stats_.get(); }

 private:
  SchedulerOptions options_;
  std::optional<PickerChoice> shadow_picker_;
  std::shared_ptr<ShadowStats> shadow_stats_;  // of all versions since it became the shadow picker
  std::shared_ptr<const Backends> backends_;
  std::shared_ptr<PoolScheduler> scheduler_;
  std::vector<std::uint32_t> slots_;
};

}  // namespace evenkeel
