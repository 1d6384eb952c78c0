// Monitors every backend: whether it can serve, which engine it runs, how busy it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/backend_status.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

class DescriptorBudget;
class GpuExporters;
class MonitoredBackend;

/// Detects the engine of each backend, checks its health and polls its metrics on the control loop,
/// and writes the results into its `SharedBackend`. Backends are independent: a slow one delays no
/// other.
///
/// Thread: the control loop's, except `snapshot`.
class BackendMonitor {
 public:
  /// Open connections to a backend may be dead: it does not respond to checks or to connection
  /// attempts. `max_silence`: how long they may bring nothing; `Duration::max()`: it responds
  /// again, at least over new connections. Called within `publish_interval`.
  using OnSuspicion = std::function<void(const std::string& pool, const std::string& backend,
                                         Duration max_silence)>;

  /// `resolve`: looks up the host names of GPU exporters.
  BackendMonitor(Loop& loop, std::uint64_t seed, NameResolver resolve, OnSuspicion on_suspicion);
  BackendMonitor(const BackendMonitor&) = delete;
  BackendMonitor& operator=(const BackendMonitor&) = delete;
  ~BackendMonitor();

  /// Monitors exactly these backends from now on; called at the start and after every change. A
  /// backend with the same pool, id and spec is not disturbed. A new one is out of rotation until
  /// it has passed a check. One that is not in `specs` is no longer monitored.
  /// `max_client_connections`: over all listeners; 0: unlimited.
  void update(std::vector<MonitorSpec> specs, std::size_t max_client_connections);

  /// Waits until every backend has had its first result, or until the deadline. Waits only briefly
  /// for those that were down before the start.
  Task<void> wait_for_first_results(Instant deadline);

  /// The status of all backends. A change of state or engine is in it within one iteration of the
  /// loop, anything else within `publish_interval`. Never null. Thread: any.
  std::shared_ptr<const MonitorSnapshot> snapshot() const;

  static constexpr Duration publish_interval = std::chrono::milliseconds(100);

 private:
  struct Entry {
    std::unique_ptr<MonitoredBackend> backend;
    MonitorSnapshot::Entry status;  // as last published; null: never
    std::uint64_t revision = 0;     // of `backend` when `status` was made
    bool was_down = false;          // before this process started
  };
  using Key = std::pair<std::string, std::string>;  // pool and backend

  Task<void> run();
  bool all_have_first_result(bool also_if_down) const;
  void publish_changes();

  Loop& loop_;
  Rng rng_;
  std::unique_ptr<GpuExporters> exporters_;
  OnSuspicion on_suspicion_;
  std::map<Key, Entry> entries_;
  std::unique_ptr<DescriptorBudget> descriptor_budget_;
  Signal first_result_;
  Signal status_changed_;
  bool membership_changed_ = false;
  mutable std::mutex mutex_;  // of `snapshot_`
  std::shared_ptr<const MonitorSnapshot> snapshot_ = std::make_shared<MonitorSnapshot>();
  Task<void> run_;
};

}  // namespace evenkeel
