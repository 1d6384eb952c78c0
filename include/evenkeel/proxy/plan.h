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
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/router.h"

namespace evenkeel {

/// What the plans of all workers share: pools with their backends, and where those are.
/// Immutable in shape. Thread: any.
class Fleet {
 public:
  /// Resolves names and reads certificates; blocks. Errors name the backend or the file.
  static Result<std::shared_ptr<const Fleet>> build(const Config& config);

  struct Member {
    std::shared_ptr<PoolState> state;
    std::vector<std::vector<Endpoint>> addresses;  ///< of each backend
    std::shared_ptr<const TlsClient> tls;  ///< how its backends are spoken to; null: in the clear
  };
  const std::vector<Member>& pools() const { return pools_; }
  /// How a listener speaks TLS; null: in the clear.
  std::shared_ptr<const TlsServer> tls_of(std::string_view listener) const;

 private:
  std::vector<Member> pools_;
  std::map<std::string, std::shared_ptr<const TlsServer>, std::less<>> listeners_;
};

/// A worker's own: outlives its plans.
struct WorkerContext {
  Loop& loop;
  Sheets& sheets;
  unsigned index;
  Ledger& ledger;
};

class Plan final : public Handler {
 public:
  Plan(const Config& config, std::shared_ptr<const Fleet> fleet, const WorkerContext& worker);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Finds the route, then sends the request down the filters of its pool.
  Task<Result<Response>> handle(Request& request) override;

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

  Handler& filters_before(Handler& last);
  Handler& stage(Filter& filter, Handler& next);
  const Lane& choose(const Road& road);

  Config config_;
  std::shared_ptr<const Fleet> fleet_;
  Router router_;
  Rng rng_;
  AccessFilter access_;
  GrpcFilter grpc_;
  ProvenanceFilter provenance_;
  std::vector<std::unique_ptr<Handler>> handlers_;
  std::vector<Road> roads_;
  Handler* unrouted_;
};

}  // namespace evenkeel
