// Joins the inputs of several requests into one.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "evenkeel/base/high_resolution_timer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/body_rules.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/batch_body.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/proxy/worker_context.h"
#include "evenkeel/stats/worker_metrics.h"
#include "proxy/answer_key.h"

namespace evenkeel {

/// Stands before a pool with `batching`, behind what changes its bodies. Requests are of one kind
/// if they differ in nothing but their inputs. One of a kind goes to a backend at once while the
/// backends, shared by the workers, have none of that kind to work at; else it waits for others
/// until one of these has ended, the batch is full, or `max_wait` is over. What waits then goes as
/// one request (RequestBatch), and each gets its part of the answer. All other requests pass.
///
/// Thread: one worker's. REQUIRES: what is passed by reference outlives it.
class Batching final : public Handler {
 public:
  /// The longest body of a request that is joined with others.
  static constexpr std::uint64_t max_body_bytes = 1024UL * 1024;

  /// `pool`: has `batching`. `state`: of the pool.
  Batching(Handler& next, const PoolConfig& pool, const PoolState& state,
           const RouteBodyRules& routes, const TokenEstimates& estimates,
           const WorkerContext& worker, BatchingMetrics& metrics);

  Task<Result<Response>> handle(Request& request) override;

 private:
  class Kind;
  class Flight;
  class FlightBody;
  class Waiting;
  using FlightPtr = std::shared_ptr<const void>;

  std::optional<BatchApi> api_of(const Request& request) const;
  std::shared_ptr<Kind> kind_of(BatchApi api, const AnswerKey& key);
  Task<Result<Response>> send_alone(Request& request, FlightPtr flight);
  Task<Result<Response>> wait(Request& request, std::shared_ptr<Kind> kind, BatchBody body);
  void await(Waiting& request);
  void forget(Waiting& request);
  void send_due();

  Loop& loop_;
  Handler& next_;
  const BatchingConfig& config_;
  const RouteBodyRules& routes_;
  const TokenEstimates& estimates_;
  const AnswerKeys keys_;
  BatchingMetrics& metrics_;
  const MemoryPressureLevel* const pressure_;  // null: memory is never scarce
  const std::size_t max_in_flight_;            // of one kind, before others wait
  std::unordered_map<AnswerKey, Kind*, AnswerKeyHash> kinds_;
  std::list<Waiting*> arrivals_;  // all that wait, of any kind, in order
  bool is_armed_ = false;
  MethodHighResolutionTimer<&Batching::send_due> timer_;
};

}  // namespace evenkeel
