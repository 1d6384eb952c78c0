// Keeps watch over every backend: whether it can serve, what it runs, how busy it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/upstream/health_checker.h"
#include "evenkeel/upstream/metrics_poller.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// What is known of one backend.
struct BackendStatus {
  std::string pool;
  std::string backend;  ///< its id
  std::string engine;   ///< of the file; of `auto`, what was detected, "auto" until then
  std::vector<std::string> models;  ///< that it says it serves; empty: unknown
  HealthRecord health;
  const MetricsPoller* poller = nullptr;  ///< null: nobody reads its metrics
};

/// Asks all backends of all pools, on the control loop, and tells their `Load`s. None is asked two
/// things of a kind at a time; none waits for another.
///
/// Thread: the control loop's.
class BackendMonitor {
 public:
  /// `resolve`: where GPU exporters are that are given by name.
  BackendMonitor(Loop& loop, std::uint64_t seed, NameResolver resolve = literal_addresses_only());
  BackendMonitor(const BackendMonitor&) = delete;
  BackendMonitor& operator=(const BackendMonitor&) = delete;
  ~BackendMonitor();

  /// Watches the backends of this fleet from now on, which was built from this configuration: at
  /// the start, and after every change. Those that are as they were go on undisturbed; those that
  /// are new get no requests until their first check; those that are gone are forgotten.
  void update(const Config& config, const PoolSet& pool_set);

  /// Until every backend has had its first result, or the deadline.
  Task<void> wait_for_first_results(Instant deadline);

  /// Null: there is none. Valid until the next call of `find` for the same, or of `follow`.
  const BackendStatus* find(std::string_view pool, std::string_view backend) const;

 private:
  class MonitoredBackend;  // where one backend is watched from
  using Key = std::pair<std::string, std::string>;
  struct Less {
    using is_transparent = void;
    using Views = std::pair<std::string_view, std::string_view>;
    bool operator()(const Views& a, const Views& b) const { return a < b; }
  };

  Task<void> run();
  void check_descriptor_budget(const Config& config, const PoolSet& pool_set);
  void warn_if_blocked_locally(std::uint64_t blocked_locally);

  Loop& loop_;
  Rng rng_;
  GpuExporters exporters_;
  std::map<Key, std::unique_ptr<MonitoredBackend>, Less> backends_;  // by pool and backend
  Signal first_result_;  // one more has had its first result
  bool keeps_links_ = true;
  std::size_t reported_descriptor_need_ =
      0;  // descriptors, when it was last looked at whether there are enough
  std::uint64_t blocked_locally_ = 0;  // questions, when they were last looked at
  Instant next_warning_{};
  Task<void> run_;
};

}  // namespace evenkeel
