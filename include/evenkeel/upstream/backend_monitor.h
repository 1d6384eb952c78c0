// Monitors every backend: whether it can serve, which engine it runs, how busy it is.
#pragma once

#include <cstddef>
#include <cstdint>
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
#include "evenkeel/upstream/metrics_poller.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

class DescriptorBudget;
class MonitoredBackend;

/// Detects, checks and polls all backends from the control loop, and writes what it finds into
/// their `Load`s. Backends are independent: a slow one delays no other.
///
/// Thread: the control loop's, except `snapshot`.
class BackendMonitor {
 public:
  /// `resolve`: looks up GPU exporters that the file gives by name.
  BackendMonitor(Loop& loop, std::uint64_t seed, NameResolver resolve = literal_addresses_only());
  BackendMonitor(const BackendMonitor&) = delete;
  BackendMonitor& operator=(const BackendMonitor&) = delete;
  ~BackendMonitor();

  /// Monitors these backends from now on: at the start, and after every change. A backend with the
  /// same pool and id goes on undisturbed where its spec is the same; a new one stays out of
  /// rotation until its first check; one that is gone is forgotten.
  /// `max_client_connections`: over all listeners; 0: unlimited.
  void update(std::vector<MonitorSpec> specs, std::size_t max_client_connections);

  /// Until every backend has had its first result, or until the deadline.
  Task<void> wait_for_first_results(Instant deadline);

  /// What is known of all backends. A change of state or engine is in it within one turn of the
  /// loop, all else within `publish_interval`. Never null. Thread: any.
  std::shared_ptr<const MonitorSnapshot> snapshot() const;

  static constexpr Duration publish_interval = std::chrono::milliseconds(100);

 private:
  struct Entry {
    std::unique_ptr<MonitoredBackend> backend;
    MonitorSnapshot::Entry status;  // as published last; null: not yet
    std::uint64_t revision = 0;     // of `backend` when `status` was made
  };
  using Key = std::pair<std::string, std::string>;  // pool and backend

  Task<void> run();
  bool all_have_first_result() const;
  void publish_changes();

  Loop& loop_;
  Rng rng_;
  GpuExporters exporters_;
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
