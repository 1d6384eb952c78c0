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
#include "evenkeel/filter/access.h"
#include "evenkeel/filter/grpc.h"
#include "evenkeel/filter/provenance.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/proxy/fleet.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/router.h"

namespace evenkeel {

/// How a backend of a pool is spoken to, by whoever does. `tls`: of its pool. A pool of links is
/// one backend's and one plan's: whatever TLS settings a link was made with are those of every
/// request that may use it, without any of them being part of a key.
LinkPoolOptions link_options_of(const PoolConfig& pool, const BackendConfig& backend,
                                const std::shared_ptr<const TlsClient>& tls);

/// A worker's own: outlives its plans.
struct WorkerContext {
  Loop& loop;
  Sheets& sheets;
  unsigned index;
  Ledger& ledger;
};

class Plan final : public Handler {
 public:
  /// `predecessor`: this worker's plan until now, or null; links to backends that are as they were
  /// go on. REQUIRES: the fleet was built from this configuration.
  Plan(std::shared_ptr<const Config> config, std::shared_ptr<const Fleet> fleet,
       const WorkerContext& worker, const Plan* predecessor = nullptr);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Finds the route, then sends the request down the filters of its pool.
  Task<Result<Response>> handle(Request& request) override;

  /// The links that its successor did not take over.
  std::vector<std::shared_ptr<LinkPool>> links_not_in(const Plan& successor) const;

  /// How connections to a listener begin from now on; null: in the clear.
  std::shared_ptr<const TlsServer> tls_of(std::string_view listener) const {
    return fleet_->tls_of(listener);
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
  struct Connected {
    std::string id;
    std::vector<Endpoint> addresses;
    LinkPoolOptions options;
    std::shared_ptr<LinkPool> links;
  };
  /// One of the pools that a route leads to.
  struct Lane {
    Handler* first;  // of its filters
    std::string_view pool;
    std::uint32_t pool_index;
    std::uint32_t upto;  // cumulated weight
  };
  struct Road {
    std::string name;
    std::uint32_t index;  // of Names
    bool calls_only;      // of gRPC
    std::vector<Lane> lanes;
  };

  void add_pool(const PoolConfig& pool, const Fleet::Member& member, const WorkerContext& worker,
                const Plan* predecessor);
  void add_road(const RouteConfig& route, Names& names);
  Handler& filters_before(Handler& last);
  Handler& stage(Filter& filter, Handler& next);
  const Lane& choose(const Road& road);

  std::shared_ptr<const Config> config_;
  std::shared_ptr<const Fleet> fleet_;
  Router router_;
  Rng rng_;
  AccessFilter access_;
  GrpcFilter grpc_;
  ProvenanceFilter provenance_;
  std::vector<std::unique_ptr<Handler>> handlers_;
  std::map<std::string, std::vector<Connected>, std::less<>> connected_;  // by pool
  std::vector<Handler*> firsts_;                                          // of each pool's filters
  std::vector<Road> roads_;
  Handler* unrouted_;
};

}  // namespace evenkeel
