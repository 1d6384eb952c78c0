// One backend's own metrics, read again and again: what its engine and its GPUs say of themselves
// goes to the backend's signals, for the pickers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/poll_record.h"

namespace evenkeel {

/// What the file says, and what the server was found to be.
struct MetricsPollSpec {
  MetricsConfig config;
  std::string engine = "generic";  ///< as the file names it, or as detected
  std::string url;                 ///< of the exposition; empty: at the backend, as `config` says
  std::vector<std::string> gpus;   ///< the backend's, as their exporter labels them; empty: all

  bool operator==(const MetricsPollSpec&) const = default;
};

/// Whether there is anything to ask such a server, or its GPU exporter.
bool is_polled(const MetricsPollSpec& spec);

/// How a name becomes addresses without keeping the loop waiting.
using NameResolver =
    std::function<Task<Result<std::vector<Endpoint>>>(std::string host, std::uint16_t port)>;

/// Addresses that are written as such, and nothing else.
NameResolver literal_addresses_only();

class GpuExporter;

/// GPU exporters by URL: one that serves several backends is read once for all of them.
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

/// Reads on until it is dropped; what it published is forgotten then. Never more than one reading
/// at a time; the connection is kept where the server allows. Values that could not be read again
/// within a bounded age become unknown, one source at a time.
///
/// Thread: the loop's.
class MetricsPoller {
 public:
  /// `access`: how the backend itself is reached. What is at another port of its host or elsewhere
  /// is reached in the clear, or as its URL says, and is not given the backend's key. The first
  /// reading is somewhere within the first interval. REQUIRES: is_polled(question).
  MetricsPoller(Loop& loop, const MetricsPollSpec& spec, const ServerAccess& access,
                BackendPtr backend, GpuExporters& exporters);
  MetricsPoller(const MetricsPoller&) = delete;
  MetricsPoller& operator=(const MetricsPoller&) = delete;
  ~MetricsPoller();

  PollStatus status() const;
  /// Differs from before whenever `status()` does.
  std::uint64_t revision() const;
  /// A poller of this spec would do what this one does.
  bool polls(const MetricsPollSpec& spec, const ServerAccess& access, const Backend& backend) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
