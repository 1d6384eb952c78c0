// Gives the answer to one request to others that ask the same.
#pragma once

#include <memory>
#include <unordered_map>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/body_rules.h"
#include "evenkeel/http/message.h"
#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/redis_answers.h"
#include "proxy/answer_key.h"
#include "proxy/shared_answer.h"

namespace evenkeel {

/// Stands before a pool with `cache` or `coalesce`. A request for which an answer is kept gets
/// that, one that is identical to one in flight gets the same answer, and all others go on: their
/// answers may be kept. If the pool fails a request, it gets an answer that is no longer fresh, if
/// there is one. Where an answer comes from is in the field x-evenkeel-cache.
///
/// Requests that are in flight at this worker share answers, kept ones are those of all workers.
///
/// Thread: one worker's. REQUIRES: what is passed by reference outlives it.
class AnswerReuse final : public Handler, private SharedAnswer::Owner {
 public:
  /// `state`: of the pool. `shared`: where all replicas keep answers; null: nowhere. `pressure`:
  /// null: memory is never scarce.
  AnswerReuse(Loop& loop, Handler& next, const PoolConfig& pool, const PoolState& state,
              const RouteBodyRules& routes, PoolMetrics& metrics,
              std::shared_ptr<RedisAnswers> shared, const MemoryPressureLevel* pressure);

  Task<Result<Response>> handle(Request& request) override;

 private:
  /// What is to be done with the answer to one request.
  struct Use {
    AnswerKey key;
    bool keeps = false;
    bool coalesces = false;
    std::string generation;  // of the answers that replicas share; empty: it is not shared
    KeptAnswerPtr stale;     // in place of an error; null: there is none
  };

  bool memory_is_scarce() const override;
  Response serve_kept(Request& request, KeptAnswerPtr answer, AnswerSource source) const;
  bool is_in_flight(const Request& request, const Use& use) const;
  Task<Result<Response>> ask_replicas(Request& request, Use use);
  Task<Result<Response>> miss(Request& request, Use use);
  Task<Result<Response>> fetch(Request& request, Use use);
  Task<Result<Response>> generate(Request& request, Use use);
  Task<Result<Response>> share(Request& request, Use use);
  std::unique_ptr<SharedAnswer::Reader> join(Request& request, const Use& use);
  Task<Result<Response>> read(Request& request, std::unique_ptr<SharedAnswer::Reader> reader,
                              KeptAnswerPtr stale);
  void on_closed(SharedAnswer& answer) override;

  struct InFlight {
    AnswerKey key;
    Priority priority;
    bool operator==(const InFlight&) const = default;
  };
  struct InFlightHash {
    std::size_t operator()(const InFlight& each) const { return each.key.first.low; }
  };

  Loop& loop_;
  Handler& next_;
  const PoolConfig& pool_;
  const RouteBodyRules& routes_;
  const ReuseRules rules_;
  const std::shared_ptr<AnswerCache> cache_;    // null: no answer is kept
  const std::shared_ptr<RedisAnswers> shared_;  // null: replicas share none
  const AnswerKeys keys_;
  PoolMetrics& metrics_;
  const MemoryPressureLevel* const pressure_;
  std::unordered_map<InFlight, SharedAnswer*, InFlightHash> in_flight_;
};

}  // namespace evenkeel
