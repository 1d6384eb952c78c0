// Everything that one worker needs to answer requests, built whole from one configuration:
// immutable in shape, swapped between requests, gone when its last request has ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/pool.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/filter/grpc.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/router.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// A worker's own: outlives its plans.
struct WorkerContext {
  Loop& loop;
  MetricsRegistry& metrics_registry;
  unsigned index;
  RequestRecorder& recorder;
};

class Plan final : public Handler {
 public:
  /// `predecessor`: this worker's plan until now, or null; links to backends that are as they were
  /// go on. REQUIRES: the fleet was built from this configuration.
  Plan(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
       const WorkerContext& worker, const Plan* predecessor = nullptr);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Finds the route, then sends the request down the filters of its pool.
  Task<Result<Response>> handle(Request& request) override;

  /// The links that its successor did not take over.
  std::vector<std::shared_ptr<LinkPool>> links_not_in(const Plan& successor) const;

  /// How connections to a listener begin from now on; null: in the clear.
  std::shared_ptr<const TlsServerContext> tls_of(std::string_view listener) const {
    return pool_set_->tls_of(listener);
  }

 private:
  /// A filter with what comes behind it.
  struct Stage final : Handler {
    Stage(Filter& own, Handler& following) : filter(own), next(following) {}
    Task<Result<Response>> handle(Request& request) override {
      return filter.handle(request, next);
    }
    Filter& filter;
    Handler& next;
  };
  /// A backend as one worker is connected to it.
  struct ConnectedBackend {
    std::string id;
    std::vector<Endpoint> addresses;
    LinkPoolOptions options;
    std::shared_ptr<LinkPool> links;
  };
  /// One of the pools that a route leads to.
  struct WeightedTarget {
    Handler* first;  // of its filters
    std::string_view pool;
    std::uint32_t pool_index;
    std::uint32_t cumulative_weight;  // cumulated weight
  };
  struct Route {
    std::string name;
    std::uint32_t index;  // of Names
    bool grpc_only;       // of gRPC
    std::vector<WeightedTarget> targets;
  };

  void add_pool(const PoolConfig& pool, const PoolSet::PoolEntry& pool_entry,
                const WorkerContext& worker, const Plan* predecessor);
  void add_route(const RouteConfig& route, LabelIndex& label_index);
  Handler& build_filter_chain(Handler& last);
  Handler& add_stage(Filter& filter, Handler& next);
  const WeightedTarget& choose_target(const Route& plan_route);

  std::shared_ptr<const Config> config_;
  std::shared_ptr<const PoolSet> pool_set_;
  Router router_;
  Rng rng_;
  AccessLogFilter access_log_;
  GrpcFilter grpc_;
  ForwardingHeadersFilter forwarding_headers_;
  std::vector<std::unique_ptr<Handler>> handlers_;
  std::map<std::string, std::vector<ConnectedBackend>, std::less<>> connected_;  // by pool
  std::vector<Handler*> pool_chains_;  // of each pool's filters
  std::vector<Route> routes_;
  Handler* unrouted_;
};

}  // namespace evenkeel
