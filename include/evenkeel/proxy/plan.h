// Everything that one worker needs to serve requests, built from one configuration. Immutable in
// shape, replaced between requests, destroyed when its last request has ended.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/proxy/router.h"
#include "evenkeel/proxy/worker_context.h"
#include "evenkeel/proxy/worker_links.h"
#include "evenkeel/tenancy/key_table.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// The names of the pools whose models a plan has to know to list them for clients. Empty for most
/// files: backends list their own.
std::set<std::string> pools_to_list(const Config& config);

class AccessTable;
class FilterChain;
class ModelDirectory;
class OllamaLists;
class PlanPools;
class RedisAnswers;
class RedisQuotas;
class RouteTable;
class Tenants;

/// Ties the routes, the filters, the pools and the links of a worker. A request passes
///
///     Plan::handle -> RouteTable::route_by_head -> the filters of FilterChain -> Plan::place
///       -> RouteTable::route_by_body, if its route is open -> the filters of its PoolChain
///       -> Forwarder
class Plan final : public Handler, public std::enable_shared_from_this<Plan> {
 public:
  /// `predecessor`: this worker's active plan, or null. Links to backends that have not changed are
  /// taken over from it. `keys`: null for those that the configuration has itself; `issuers`: null
  /// for those of the pool set. REQUIRES: all were built from this configuration.
  Plan(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
       const WorkerContext& worker, const Plan* predecessor = nullptr,
       std::shared_ptr<const KeyTable> keys = nullptr,
       std::shared_ptr<const TokenIssuers> issuers = nullptr);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() override;

  Task<Result<Response>> handle(Request& request) override;

  WorkerLinks& links() { return links_; }
  const Config& config() const { return *config_; }

  /// The keys that count from now on. REQUIRES: they were built for this configuration.
  void adopt(std::shared_ptr<const KeyTable> keys);
  /// The issuers whose tokens count from now on, on the same terms.
  void adopt(std::shared_ptr<const TokenIssuers> issuers);

  /// See PlanPools::hand_queues_to.
  void hand_queues_to(const std::shared_ptr<Plan>& successor);

  /// The TLS context for new connections to a listener; null: without TLS.
  std::shared_ptr<const TlsServerContext> tls_of(std::string_view listener) const {
    return pool_set_->tls_of(listener);
  }

 private:
  class Placing;

  void route(Request& request);
  Task<Result<Response>> place(Request& request);
  Plan& newest_for(Request& request);
  Task<Result<Response>> answer(Request& request);
  Task<Result<Response>> answer_without_pool(Request& request);
  Result<Response> refuse(Request& request) const;

  std::shared_ptr<const Config> config_;
  std::shared_ptr<const PoolSet> pool_set_;
  const WorkerContext worker_;
  LabelUses label_uses_;
  WorkerLinks links_;
  std::unique_ptr<PlanPools> pools_;
  std::unique_ptr<RouteTable> routes_;
  std::unique_ptr<Tenants> tenants_;                 // null: the file names none
  std::shared_ptr<RedisQuotas> quotas_;              // null: no replicas share any
  std::shared_ptr<RedisAnswers> shared_answers_;     // null: likewise
  std::unique_ptr<AccessTable> access_;              // null: the file has no `auth`
  std::unique_ptr<ModelDirectory> model_directory_;  // null: backends answer GET /v1/models
  std::unique_ptr<OllamaLists> ollama_lists_;        // null: there is one pool
  std::unique_ptr<Handler> placing_;
  std::unique_ptr<FilterChain> chain_;
};

}  // namespace evenkeel
