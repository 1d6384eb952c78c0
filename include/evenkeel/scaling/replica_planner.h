// How many replicas of its server a pool needs.
//
//   work     = arrivals * m + waiting * m / patience     seconds of engines, in a second
//   capacity = 1 - t0 / T                                of one replica, in the same unit
//   demand   = max(work / capacity, load)                replicas at capacity
//   forecast = max(demand + trend * start_time, what the same hour of other days tells)
//   desired  = ceil(the largest forecast / target of the last start_time), within min and max
//
// m: mean predicted work of a request: S for its prompt, and L * phi1 for what its L output tokens
// add to the steps of the other streams. t0: an idle decode step; T: the target for the time per
// output token. load: what engines report and slots in use, 1 for each backend at capacity.
//
// Why that is the capacity at the SLO: with r requests a second on one replica, r * L * T streams
// run (Little's law). A step takes t0 + r L T phi1, and prompts take the share r S of the time, so
// a token comes every (t0 + r L T phi1) / (1 - r S). That is at most T while
// r (S + L phi1) <= 1 - t0 / T. `target` is what of this is planned for: queues for prompts grow
// with 1 / (1 - utilization).
//
// Sources: the ratio over a target, rounded up, and a window that keeps the largest result before
// replicas go, are the Kubernetes HorizontalPodAutoscaler's. The window is `start_time`: a replica
// that goes too early is missing for as long. Linear in the tokens of a step: see EngineSpeed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// What decides how many replicas a pool needs.
enum class ScalingReason : std::uint8_t {
  idle,      ///< no request has come for a while
  waiting,   ///< requests wait, and no replica serves
  load,      ///< slots in use, or what engines report
  work,      ///< predicted work of the requests that come
  trend,     ///< demand grows, and a replica needs `start_time`
  history,   ///< it has grown at this hour of other days
  held,      ///< more was needed within the last `start_time`
  starting,  ///< this process has not looked for `start_time` yet: what serves stays
  unknown,   ///< nothing tells the load: as many as serve
};

/// The stable word of a reason, such as "work".
std::string_view to_string(ScalingReason reason);

/// What a scheduler has predicted of the requests of its pool.
struct PredictedWork {
  std::uint64_t arrived_total = 0;
  std::uint64_t priced_total = 0;  ///< of these, whose work is in the sum
  Duration work_sum{};
  double capacity = 0;  ///< of a replica, in seconds of work a second, within its SLO; 0: not known
};

/// A pool at one moment.
struct PoolSample {
  std::uint32_t replicas = 0;  ///< that serve
  std::uint64_t in_flight = 0;
  std::uint64_t waiting = 0;
  double load = 0;  ///< of the replicas, 1 for each at capacity; NaN: not known
  std::optional<PredictedWork> work;
  Duration patience = std::chrono::seconds(30);  ///< the longest that a request waits
};

/// How many replicas a pool should have.
struct ReplicaPlan {
  std::uint32_t desired = 0;
  ScalingReason reason = ScalingReason::unknown;
  double demand = 0;               ///< replicas at `target`, before `min` and `max`
  double trend = 0;                ///< of the demand, in replicas a minute
  std::optional<double> work;      ///< seconds of engines in a second
  std::optional<double> capacity;  ///< of one replica, likewise
  std::optional<double> load;      ///< as of PoolSample

  bool operator==(const ReplicaPlan&) const = default;
};

/// Plans the replicas of one pool. It is told of it about once a second.
///
/// Thread: one at a time.
class ReplicaPlanner {
 public:
  const ReplicaPlan& update(const PoolSample& sample, const ScalingConfig& config, Instant now);
  const ReplicaPlan& plan() const { return plan_; }

 private:
  /// A forecast of the past, in replicas at `target`.
  struct Past {
    Instant at;
    double demand;
  };

  void measure_work(const PoolSample& sample, double passed);
  double demand_of(const PoolSample& sample, double passed);
  void record(double demand, Instant now);
  void begin_interval(std::int64_t number);
  float& of_week(std::int64_t number);
  double growth(Instant now, Duration horizon, Duration window);
  std::optional<double> history_at(double demand, Instant now, Duration horizon);
  double forecast(double demand, const ScalingConfig& config, Instant now);
  double largest_since(Instant since, double demand, Instant now);
  double wanted(const PoolSample& sample, double planned, Duration hold, Instant now);

  std::optional<Instant> began_;
  Instant last_{};
  Instant busy_at_{};  // when a request was last there
  ReplicaPlan plan_;

  // Work: a rate of arrivals, and a mean of what they cost.
  PredictedWork seen_;
  double arrival_rate_ = 0;
  double priced_ = 0;  // requests and their seconds, those of long ago count less
  double priced_seconds_ = 0;
  double capacity_ = 0;         // the last that was known
  std::optional<double> load_;  // smoothed

  std::deque<Past> levels_;        // demand every `level_interval`, before target and trend
  std::deque<Past> held_;          // falling: the first is the largest of the window
  std::vector<float> week_;        // mean demand by `history_interval`, as a ring; NaN: not known
  std::int64_t week_number_ = -1;  // of the interval that runs
  double week_sum_ = 0;
  std::uint32_t week_count_ = 0;
};

}  // namespace evenkeel
