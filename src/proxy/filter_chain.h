// All filters of a plan, in one list.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/filter/auth.h"
#include "evenkeel/filter/body_rules.h"
#include "evenkeel/filter/canary.h"
#include "evenkeel/filter/compression.h"
#include "evenkeel/filter/cors.h"
#include "evenkeel/filter/error_pages.h"
#include "evenkeel/filter/field_edits.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/filter/grpc.h"
#include "evenkeel/filter/inspect.h"
#include "evenkeel/filter/limits.h"
#include "evenkeel/filter/observe.h"
#include "evenkeel/filter/path_rewrite.h"
#include "evenkeel/filter/rewrite.h"
#include "evenkeel/filter/trace.h"
#include "evenkeel/http/message.h"
#include "evenkeel/proxy/worker_context.h"
#include "proxy/access_table.h"
#include "proxy/answer_reuse.h"
#include "proxy/batching.h"
#include "proxy/fallback.h"
#include "proxy/mirror.h"
#include "proxy/plan_pools.h"

namespace evenkeel {

/// The filters of every request, in front of the handler that places it, those of routes, in front
/// of their pools, and those of each pool, in front of its forwarder. Thread: the worker's.
class FilterChain {
 public:
  /// Sets PlanPool::first and PlanPool::entry. `reads_bodies`: some requests are read before they
  /// are placed. `access`: null where requests need no credential. `plan`: gives the one that owns
  /// the chain. All that is passed outlives the chain.
  FilterChain(const Config& config, PlanPools& pools, const PoolSet& pool_set,
              QuotaStore* quota_store, const std::shared_ptr<RedisAnswers>& shared_answers,
              const WorkerContext& worker, std::uint64_t seed, const PlacementNeeds& needs,
              bool reads_bodies, AccessTable* access, Handler& placing,
              MirrorFilter::PlanSource plan);
  FilterChain(const FilterChain&) = delete;
  FilterChain& operator=(const FilterChain&) = delete;

  Handler& first() { return *first_; }
  /// The members of bodies that are looked for, by whose positions requests know them.
  const std::vector<std::string>& body_members() const { return body_rules_.members(); }

 private:
  /// A filter and the handler behind it.
  struct Stage final : Handler {
    Stage(Filter& own, Handler& following) : filter(own), next(following) {}
    Task<Result<Response>> handle(Request& request) override {
      return filter.handle(request, next);
    }
    Filter& filter;
    Handler& next;
  };

  void build(const Config& config, PlanPool& pool, const PoolSet& pool_set,
             const std::shared_ptr<RedisAnswers>& shared_answers, const WorkerContext& worker,
             const LimitsFilter::Counting* counting);
  Handler* in_front_of(Handler& next, Filter& filter) {
    return &stages_.emplace_back(filter, next);
  }

  const PriceList prices_;
  const RouteBodyRules body_rules_;
  const PathRewrites path_rewrites_;
  ResponseFieldsFilter response_fields_;
  CorsFilter cors_;
  const CanaryCounter canaries_;
  CompressionFilter compression_;
  const ErrorPages error_pages_;
  AccessLogFilter access_log_;
  GrpcFilter grpc_;
  ForwardingHeadersFilter forwarding_headers_;
  std::optional<TraceFilter> trace_;
  std::optional<AuthorizationFilter> authorization_;
  std::optional<InspectFilter> inspect_;
  std::optional<InspectFilter> inspect_copies_;  // whose paths are those that backends get
  std::optional<ObserveFilter> observe_;
  std::optional<LimitsFilter> limits_;
  std::optional<LimitsFilter> route_limits_;
  std::optional<MirrorFilter> mirror_;
  RequestFieldsFilter request_fields_;
  PathRewriteFilter path_rewrite_;
  std::deque<LimitsFilter> budgets_;
  std::deque<RewriteFilter> rewrites_;
  std::deque<Batching> batchings_;
  std::deque<AnswerReuse> reuses_;
  std::deque<Fallback> fallbacks_;
  std::deque<Stage> stages_;
  Handler* first_;
};

/// True if the bodies that requests get in either pool are the same.
bool rewrites_alike(const PoolConfig& one, const PoolConfig& other);

}  // namespace evenkeel
