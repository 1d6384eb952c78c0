// Sends copies of requests to another pool, whose answers are dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"
#include "evenkeel/proxy/worker_context.h"
#include "evenkeel/stats/worker_metrics.h"
#include "proxy/plan_pools.h"

namespace evenkeel {

/// Stands before the pools of routes with a `mirror`. A share of their requests also goes to the
/// mirror's pool, as copies that begin in the loop's next step: the request itself goes first, and
/// neither waits for its copy nor knows what becomes of it. The choice is that of a split: a
/// conversation is copied as a whole.
///
/// A copy has no client: no limit, log line or usage record counts it, and it waits behind clients'
/// requests. A body that is held is copied at once; one that is not, while it passes, and its copy
/// is sent when it has ended. A copy is not sent if the body is a stream or too long, if memory is
/// scarce, or if the mirror's pool has too many of this worker.
///
/// Copies on their way hold their plan; they end with the worker, and a drain does not wait for
/// them.
///
/// Thread: the worker's. REQUIRES: what is passed by reference outlives it.
class MirrorFilter final : public Filter {
 public:
  /// The most copies in flight to one pool, of each worker.
  static constexpr std::int64_t max_in_flight = 256;
  /// Longer bodies are not copied.
  static constexpr std::uint64_t max_body = 1024UL * 1024;
  /// The field that tells backends that a request is a copy.
  static constexpr std::string_view mark = "x-evenkeel-mirror";

  /// Gives the plan of the filter, which copies hold; null: it outlives them.
  using PlanSource = std::function<std::shared_ptr<const void>()>;

  MirrorFilter(const Config& config, const PlanPools& pools, const WorkerContext& worker,
               std::uint64_t seed, PlanSource plan);

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  /// The mirror of one route.
  struct Mirror {
    const PlanPool* pool;
    std::uint32_t threshold;  // requests below it are copied: see split_point
    std::string_view sticky_header;
    std::uint64_t salt;
  };
  struct Copy;
  class CopiedBody;
  class PassingBody;

  bool takes(const Mirror& mirror, const Request& request);
  std::unique_ptr<Copy> copy_of(const Request& request, const Mirror& mirror) const;
  static Task<void> send(std::unique_ptr<Copy> copy);

  Loop& loop_;
  WorkerMetrics& worker_metrics_;
  HeldBodies& held_bodies_;
  const std::uint64_t max_held_bytes_;
  const ByRoute<Mirror> mirrors_;
  Rng rng_;
  const PlanSource plan_;
};

}  // namespace evenkeel
