// Polls one backend's own metrics: the values of its engine and its GPUs go to the backend's
// signals, for the pickers.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "evenkeel/backend/backend.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "evenkeel/upstream/poll_record.h"
#include "upstream/gpu_exporter.h"
#include "upstream/polled_source.h"

namespace evenkeel {

/// True if there is a page to poll, of the engine or of a GPU exporter.
bool is_polled(const MetricsPollSpec& spec);

class EngineSource;

/// Polls until it is destroyed, and withdraws its values then, but for what it counted. One poll at
/// a time; the connection is kept if the server allows it. Values that are not renewed within a
/// bounded time become unknown, separately for each source.
///
/// Thread: the loop's.
class MetricsPoller final : ValuesObserver {
 public:
  /// `access`: how to reach the backend itself. A page at another port or host is reached without
  /// TLS, or as its URL says, and never gets the backend's API key. The first poll is at a random
  /// moment within the first interval. REQUIRES: is_polled(spec).
  MetricsPoller(Loop& loop, const MetricsPollSpec& spec, const ServerAccess& access,
                BackendPtr backend, GpuExporters& exporters);
  MetricsPoller(const MetricsPoller&) = delete;
  MetricsPoller& operator=(const MetricsPoller&) = delete;
  ~MetricsPoller();

  /// Polls the engine at once, unless a poll is on its way: its server has returned, and may have
  /// been restarted.
  void poll_now();
  PollStatus status() const;
  /// Differs from before whenever `status()` does.
  std::uint64_t revision() const;
  /// `backend` is the same one in a new version of the file. REQUIRES: they share a SharedBackend.
  void replace(BackendPtr backend) { backend_ = std::move(backend); }
  /// True if a poller of this spec would do what this one does.
  bool polls(const MetricsPollSpec& spec, const ServerAccess& access, const Backend& backend) const;

 private:
  void on_values_changed() override;

  const MetricsPollSpec spec_;
  const ServerAccess access_;
  BackendPtr backend_;
  std::unique_ptr<EngineSource> engine_;                     // null: not polled
  std::shared_ptr<GpuExporter> exporter_;                    // null: none
  PollRecord unpolled_{.state = PollRecord::State::silent};  // while there is no `engine_`
};

}  // namespace evenkeel
