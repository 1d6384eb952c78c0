// One backend's own metrics, read again and again: what its engine and its GPUs say of themselves
// goes to the backend's signals, for the pickers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/backend_client.h"

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

/// How one round of reading ended, for people.
struct PollRecord {
  enum class State : std::uint8_t {
    waiting,  ///< nothing was read yet
    fresh,    ///< the last reading brought values
    failing,  ///< it did not: see `reason`
    resting,  ///< not asked: asking would wake its model, which has nothing to do (llama.cpp)
    silent,   ///< there is nothing to ask: no engine's metrics, or none that say anything
  };
  State state = State::waiting;
  std::string reason;                ///< why the last reading brought nothing; empty if it did
  std::optional<Instant> asked;      ///< when it was last asked
  Duration took{};                   ///< from the question to the answer's last byte
  Duration interval{};               ///< as it is now: stretched where the engine is slow to answer
  std::uint64_t readings_total = 0;  ///< that brought values
  std::uint64_t failures_total = 0;
  /// The same of the GPU exporter, where there is one; null: none. Failing also where it tells of
  /// none of the backend's GPUs. Valid until the next record of the same poller.
  const PollRecord* gpu = nullptr;
};

/// The stable word of a state, such as "failing".
std::string_view to_string(PollRecord::State state);

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

  PollRecord record() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
