// Everything that the control loop does for one backend: detection, health checks, polling, the
// list of its models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/inference/engine.h"
#include "evenkeel/upstream/backend_status.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "upstream/engine_detection.h"
#include "upstream/health_checker.h"
#include "upstream/metrics_poller.h"
#include "upstream/model_lister.h"

namespace evenkeel {

/// Ties the three together: what detection finds decides how the checks and polls are made, and a
/// backend that goes down is detected again.
///
/// Thread: the loop's.
class MonitoredBackend final : EngineDetection::Observer {
 public:
  /// `on_change` is called when `status()` has another state or engine, and when the first result
  /// is in. `on_suspicion`: as BackendMonitor's, for this backend. They may not destroy this
  /// object.
  MonitoredBackend(Loop& loop, std::uint64_t seed, MonitorSpec spec, GpuExporters& exporters,
                   std::function<void()> on_change, std::function<void(Duration)> on_suspicion);
  MonitoredBackend(const MonitoredBackend&) = delete;
  MonitoredBackend& operator=(const MonitoredBackend&) = delete;

  /// Applies a new spec. What is unchanged goes on undisturbed.
  /// REQUIRES: the backend shares all but its spec with the one before, or is another server.
  void update(MonitorSpec spec);
  /// Checks now if traffic gives a reason to, and reports whether open connections may be dead.
  /// Cheap: call it often.
  void check_triggers();
  /// True if the first check has ended, or the backend is not checked.
  bool has_first_result() const { return first_result_; }
  /// Requests so far that this process could not send, such as for want of a descriptor.
  std::uint64_t blocked_locally() const;

  BackendStatus status() const;
  /// Differs from before whenever `status()` does.
  std::uint64_t revision() const;

 private:
  bool is_serving() const override;
  void on_engine_identified() override { apply(in_rotation()); }
  void on_engine_unknown(std::string reason) override;

  const EngineIdentity* identity() const;
  bool in_rotation() const;
  void start_detection();
  void apply(bool serving);
  void apply_health_spec(bool serving);
  void stop_checks(bool serving);
  void apply_metrics_spec();
  void apply_model_listing();
  const Engine& known_engine() const;
  void drop_model_lister();
  void check_model_triggers(bool suspected);
  void log_models_problem();
  void publish_adapters();
  void on_health_changed(const HealthRecord& record);
  void report_first_result();

  Loop& loop_;
  Rng rng_;
  MonitorSpec spec_;
  GpuExporters& exporters_;
  std::function<void()> on_change_;
  std::function<void(Duration)> on_suspicion_;
  bool suspected_ = false;
  std::uint32_t seen_recoveries_ = 0;
  HealthRecord unchecked_record_;  // while there is no checker
  bool first_result_ = false;
  std::uint64_t own_revision_ = 0;
  std::optional<EngineDetection> detection_;   // of a pool with `engine: auto`
  std::unique_ptr<HealthChecker> checker_;     // null: not checked
  std::unique_ptr<MetricsPoller> poller_;      // null: not polled
  std::unique_ptr<ModelLister> model_lister_;  // null: its models are not listed, or it is down
  ModelList checked_models_;                   // as its checks last listed them
  std::string logged_models_problem_;
  ModelCards published_cards_;  // whose adapters its EngineState has
};

}  // namespace evenkeel
