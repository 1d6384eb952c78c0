// All workers of the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/model_catalog.h"
#include "evenkeel/upstream/pool_set.h"
#include "server/listener_assignment.h"
#include "server/worker.h"

namespace evenkeel {

/// Starts and ends the workers' threads, and hands them what changes.
///
/// Thread: the control thread, unless a member says otherwise.
class WorkerGroup {
 public:
  /// `own` is the control thread's loop. The logs are null when they are off.
  /// All outlive the group. `may_busy_poll`: whether `busy_polling` of the file has an effect.
  /// `scaling`: what listeners with `scaler` tell; null: nothing.
  WorkerGroup(Loop& own, unsigned count, MetricsRegistry& metrics_registry, AccessLog* access_log,
              AccessLog* usage_log, AuditLog* audit_log, const MemoryPressureLevel& memory_pressure,
              bool may_busy_poll = true, ScalingFeed* scaling = nullptr);
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  ~WorkerGroup();

  void start();
  /// Ends the threads; connections that are open end with the group.
  void stop();

  /// Gives every worker a plan built from these, these keys and these issuers of tokens (null:
  /// there are none), and its listeners where there are assignments (one per worker, or none). Done
  /// when every worker has applied them, which may have to wait for epoll watches; never before
  /// this has returned to the loop.
  Task<void> apply(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
                   std::vector<ListenerAssignment> assignments,
                   std::shared_ptr<const KeyTable> keys = nullptr,
                   std::shared_ptr<const TokenIssuers> issuers = nullptr);

  /// Makes these the API keys that count on every worker from now on.
  void apply(const std::shared_ptr<const KeyTable>& keys);
  /// Makes these the issuers whose tokens count on every worker from now on.
  void apply(const std::shared_ptr<const TokenIssuers>& issuers);

  /// Every worker answers from these models from now on.
  void apply(const std::shared_ptr<const ModelCatalog>& models);

  /// See LinkPool::suspect; for the links of all workers to this backend.
  void suspect(const std::string& pool, const std::string& backend, Duration max_silence);

  /// Every worker closes its listeners and idle connections; the other connections end after their
  /// requests.
  void begin_drain(Retire how);

  /// See Worker::shed_idle.
  void shed_idle(double share, ShedReason reason);
  /// Every worker returns the memory in its free lists to the heap, and the heap what is free to
  /// the system. Ends when it is done, or a worker takes longer than a second.
  Task<void> release_memory();

  /// The loops of all workers; valid as long as the group.
  const std::vector<Loop*>& loops() const { return loops_; }
  /// Open client connections. Thread: any.
  std::uint64_t connections() const;
  /// Returns at least the most connections at a time since the last call: the sum of the workers'
  /// peaks.
  std::uint64_t take_peak_connections() const;

 private:
  struct Change;
  void pass_on(const std::shared_ptr<Change>& change, std::size_t index);

  Loop& own_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Loop*> loops_;
};

}  // namespace evenkeel
