// Polls one backend's own metrics: the values of its engine and its GPUs go to the backend's
// signals, for the pickers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/poll_record.h"

namespace evenkeel {

/// What to poll: the settings of the file, and the engine.
struct MetricsPollSpec {
  MetricsConfig config;
  std::string engine = "generic";  ///< as the file names it, or as detected
  std::string url;                 ///< of the page; empty: at the backend, as `config` says
  std::vector<std::string> gpus;   ///< of the backend, by the exporter's labels; empty: all

  bool operator==(const MetricsPollSpec&) const = default;
};

/// True if there is a page to poll, of the engine or of a GPU exporter.
bool is_polled(const MetricsPollSpec& spec);

/// Resolves a name without blocking the loop.
using NameResolver =
    std::function<Task<Result<std::vector<Endpoint>>>(std::string host, std::uint16_t port)>;

class GpuExporter;

/// GPU exporters by URL: one that serves several backends is polled once for all of them.
/// Thread: the loop's. Outlives the pollers that use it.
class GpuExporters {
 public:
  GpuExporters(Loop& loop, NameResolver resolve, std::uint64_t seed);
  ~GpuExporters();
  GpuExporters(const GpuExporters&) = delete;
  GpuExporters& operator=(const GpuExporters&) = delete;

 private:
  friend class MetricsPoller;
  struct State;
  std::unique_ptr<State> state_;
};

/// Polls until it is destroyed, and withdraws its values then, but for what it counted. One poll at
/// a time; the connection is kept if the server allows it. Values that are not renewed within a
/// bounded time become unknown, separately for each source.
///
/// Thread: the loop's.
class MetricsPoller {
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
  void replace(BackendPtr backend);
  /// True if a poller of this spec would do what this one does.
  bool polls(const MetricsPollSpec& spec, const ServerAccess& access, const Backend& backend) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
