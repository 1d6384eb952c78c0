// Replays a trace against simulated engines in virtual time, through the scheduler and the pickers
// that the daemon uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/load/trace.h"
#include "evenkeel/replay/dispatcher.h"
#include "evenkeel/sim/engine.h"

namespace evenkeel {

/// A slowdown of one engine: from `at` on every step takes `factor` times as long, at most 1000
/// times with those before. Without such an engine nothing happens.
struct EngineSlowdown {
  std::uint32_t backend = 0;
  double factor = 1;
  Duration at{};
};

struct ReplayOptions {
  EngineSpec engine;
  std::uint32_t backends = 8;
  std::vector<double> speeds;  ///< of each backend, relative to the preset; repeated; empty: 1
  std::vector<EngineSlowdown> slowdowns;
  double speed = 1;                  ///< divides the trace's times
  bool bursts = false;               ///< keeps requests with equal time stamps together
  std::optional<Duration> max_time;  ///< of the replay; later requests are left out
  Duration poll_interval = std::chrono::milliseconds(250);
  SloConfig slo{.ttft = std::chrono::seconds(2), .tpot = std::chrono::milliseconds(100)};
  double shed = ExpectedTimeConfig{}.shed;
  bool sessions = false;  ///< clients name their conversations: soft sessions of `expected-time`
  double unstreamed_ratio = 0;  ///< of the requests, whose first tokens the scheduler cannot see
  std::uint64_t seed = 1;
};

/// What one picker made of a trace. Times in seconds. The first tenth of the requests is left out;
/// percentiles are of those that were served.
struct ReplayRow {
  std::string picker;
  std::uint32_t backends = 0;
  std::size_t requests = 0;
  /// The share of all requests, refused ones included: TTFT within max(SLO, 3 times the unloaded
  /// prefill), and mean time per output token within its SLO.
  double goodput_ratio = 0;
  double ttft_p50 = 0;
  double ttft_p90 = 0;
  double ttft_p99 = 0;
  double slowdown_p90 = 0;  ///< TTFT / max(0.25 s, unloaded prefill)
  double slowdown_p99 = 0;
  double tpot_p50 = 0;
  double tpot_p99 = 0;
  double e2e_p50 = 0;
  double e2e_p99 = 0;
  double hit_ratio = 0;          ///< of prompt tokens, found in the engines' caches
  double utilization_ratio = 0;  ///< of the engines' time, busy
  double imbalance = 0;          ///< most prefill tokens of a backend / mean, by speed
  std::size_t shed = 0;          ///< refused by the scheduler
  std::size_t unfinished = 0;    ///< not ended 10 minutes after the last arrival
  std::size_t left_out = 0;      ///< of the trace: prompts that do not fit into the engine
};

/// Replays the trace once. REQUIRES: the picker is one of picker_names(), there are rows and
/// backends. The same options give the same row.
ReplayRow replay(const Trace& trace, const ReplayOptions& options, std::string_view picker);

/// Makes what decides in a replay. `options` and `sink` outlive it.
using DispatcherMaker =
    std::function<std::unique_ptr<Dispatcher>(const ReplayOptions& options, RequestSink& sink)>;

/// The same with another dispatcher; `name` is what the row calls it.
ReplayRow replay(const Trace& trace, const ReplayOptions& options, std::string_view name,
                 const DispatcherMaker& make_dispatcher);

/// The row of the smallest number of backends whose goodput is at least `goodput_ratio`; nothing if
/// `max_backends` are too few. Searches by halving, so it takes goodput to grow with the backends.
std::optional<ReplayRow> replay_with_fewest_backends(const Trace& trace, ReplayOptions options,
                                                     std::string_view picker, double goodput_ratio,
                                                     std::uint32_t max_backends);

}  // namespace evenkeel
