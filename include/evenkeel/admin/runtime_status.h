// What the daemon is doing: immutable snapshots, published by the control thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/admin/admin_tls.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/discovery_status.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

class Control;
class BackendMonitor;
class KeySetFetcher;
class UsageSender;
class ScalingFeed;

/// The process that this one has replaced in an upgrade, while that finishes its requests: what it
/// last reported.
struct ReplacedProcess {
  using Backend = std::pair<std::string, std::string>;  ///< pool and id
  using Backends = std::set<Backend>;

  bool reported = false;  ///< false: nothing is known yet
  Backends drained;       ///< get no further requests from it
  std::map<Backend, std::uint64_t> in_flight;

  bool operator==(const ReplacedProcess&) const = default;
};

/// The state of the daemon at one moment. Never changes once it is published.
struct RuntimeStatus {
  std::string version;
  std::string config_file;
  std::string config_hash;
  Instant started{};
  std::chrono::system_clock::time_point loaded_at{};
  std::shared_ptr<const Config> config;            ///< the active configuration
  std::shared_ptr<const VariablesUsed> variables;  ///< what of it must not be shown; null: nothing
  std::vector<std::string> last_changes;           ///< that the last accepted reload has made
  std::shared_ptr<const PoolSet> pool_set;  ///< what is built from it; null only before the start
  AdminTls admin_tls;                       ///< of that file
  std::uint64_t reloads = 0;                ///< that were accepted
  std::uint64_t rejected_reloads = 0;
  std::vector<Problem> reload_problems;     ///< of the last reload; empty: it was accepted
  std::string upgrade_problem;              ///< why the last upgrade failed; empty: none did
  std::int32_t successor = 0;               ///< the process that has taken over; 0: none
  std::optional<ReplacedProcess> replaced;  ///< empty: it has ended, or there was none
  /// When drains end by themselves, by pool and id; the others last.
  std::map<std::pair<std::string, std::string>, std::chrono::system_clock::time_point> drain_ends;
  std::vector<DiscoveryStatus> discovery;  ///< of the pools with `discover`
  std::optional<std::size_t> api_keys;     ///< how many there are; empty: the file has no `auth`
  std::string key_file_problem;     ///< why the file of keys counts as it was; empty: it does not
  std::string state_file_problem;   ///< why it was not written; empty: it was, or is off
  std::optional<double> cpu_quota;  ///< of its cgroup, in CPUs; empty: none
  bool may_busy_poll = true;        ///< false: that is below the number of workers
  bool ready = false;
  bool draining = false;
  bool upgrading = false;  ///< another process is starting, with a copy of what operators have set
};

/// Holds the current status. Readers keep the snapshot they have taken for as long as they like.
class RuntimeStatusPublisher {
 public:
  using Snapshot = std::shared_ptr<const RuntimeStatus>;

  explicit RuntimeStatusPublisher(RuntimeStatus initial)
      : current_(std::make_shared<const RuntimeStatus>(std::move(initial))) {}

  /// Thread: any.
  Snapshot snapshot() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  /// Publishes a copy of the current status that `change` has edited. Thread: the control thread.
  template <class Change>
  void update(Change change) {
    auto next = std::make_shared<RuntimeStatus>(*snapshot());
    change(*next);
    Snapshot previous = std::move(next);
    const std::lock_guard lock(mutex_);
    current_.swap(previous);  // destroyed after the lock: it may be the last owner of a PoolSet
  }

 private:
  // Not std::atomic<std::shared_ptr>: ThreadSanitizer does not understand g++ 12's. The mutex is
  // not on the path of a request.
  mutable std::mutex mutex_;
  Snapshot current_;
};

/// The memory of the process, as last measured. Thread: any.
struct MemoryFigures {
  std::atomic<std::uint64_t> limit_bytes{0};  ///< 0: none
  std::atomic<std::uint64_t> used_bytes{0};
};

/// The parts of a running daemon that the management plane uses. All of them outlive the admin
/// listener.
struct RuntimeAccess {
  const RuntimeStatusPublisher* status = nullptr;
  MetricsRegistry* metrics_registry = nullptr;  ///< its const functions: any thread
  const AccessLog* access_log = nullptr;        ///< null: off; `dropped()`: any thread
  const AccessLog* usage_log = nullptr;         ///< null: off; its const functions: any thread
  AuditLog* audit_log = nullptr;                ///< null: off
  std::vector<Loop*> loops;                     ///< one per worker
  Loop* control_loop = nullptr;
  std::function<std::uint64_t()> connections;       ///< open on all workers; any thread
  Control* control = nullptr;                       ///< null: nothing can be changed
  const BackendMonitor* backend_monitor = nullptr;  ///< null: backends are not monitored
  const MemoryFigures* memory = nullptr;            ///< null: not measured
  const KeySetFetcher* key_sets = nullptr;          ///< its `statuses`: any thread; null: none
  const UsageSender* usage_sender = nullptr;        ///< its `status`: any thread; null: none
  const ScalingFeed* scaling = nullptr;             ///< null: none
};

}  // namespace evenkeel
