// The routes of a plan: which pool gets which request, and by which settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/inspect.h"
#include "evenkeel/http/message.h"
#include "evenkeel/proxy/router.h"
#include "evenkeel/stats/label_index.h"
#include "proxy/plan_pools.h"
#include "proxy/redirect.h"

namespace evenkeel {

/// Routes a request once: by its head, or by its body where the route or the pool depends on what
/// the body says. Thread: the worker's.
class RouteTable final : public PlacementNeeds {
 public:
  /// What is passed outlives the table.
  RouteTable(const Config& config, const PoolSet& pool_set, const PlanPools& pools,
             LabelUses& label_uses, LabelIndex& label_index, std::uint64_t seed);

  /// See Router::route. The requests of an endpoint picker with a pool have a route of their own.
  std::optional<RouteChoice> find(const Request& request) const;
  /// True if the route is one of the file: the others are behind them.
  bool is_of_file(std::size_t route) const { return route < routes_of_file_; }
  /// See Router::first_by_head.
  std::optional<std::size_t> first_by_head(const Request& request,
                                           const std::function<bool(std::size_t)>& accepts) const {
    return router_.first_by_head(request, accepts);
  }
  /// Gives the request the route that its head has, or leaves it open until the body is known.
  void route_by_head(Request& request, const RouteChoice& choice);
  /// Gives it the first route from there on that takes what its body asks for. REQUIRES: it is
  /// open, and what is read of its body was read.
  void route_by_body(Request& request);
  std::string_view name_of(std::size_t route) const { return routes_[route].name; }
  /// Names the route, for a request that goes to no pool.
  void name_route(RequestIdentity& identity, std::size_t route) const;
  /// REQUIRES: `routing` is of this table, and routed.
  const PlanPool& pool_of(const Routing& routing) const {
    return *routes_[routing.route].targets[routing.target].pool;
  }
  bool has_fixed_response(std::size_t route) const {
    return routes_[route].respond != nullptr || routes_[route].redirect;
  }
  /// The response to a request that evenkeel answers itself: a fixed one, a redirect, or the answer
  /// to a preflight, to which CorsFilter adds the fields. REQUIRES: `routing` is of this table, and
  /// fixed.
  Result<Response> fixed_response(const Request& request) const;
  /// Why the request has no route.
  RouteRefusal refusal_of(const Request& request) const { return router_.refusal_of(request); }

  /// True if some requests are read before they are placed.
  bool reads_bodies() const { return reads_bodies_; }
  bool need_more(const Request& request) const override;

 private:
  /// A pool of a route, or a part of it.
  struct Target {
    const PlanPool* pool;
    std::uint32_t subset;             // see Hint
    std::uint32_t session_subset;     // see Hint
    std::uint32_t cumulative_weight;  // of this target and those before it
    bool operator==(const Target&) const = default;
  };
  struct Route {
    std::string_view name;
    std::uint32_t index;          // of LabelIndex
    bool grpc_only;               // matches gRPC calls only
    bool splits_by_body = false;  // its pool may follow from a conversation that a body tells
    bool renames = false;         // backends may get another name of the model than clients gave
    std::optional<Priority> priority;
    bool changes_bodies = false;   // true if its rules change bodies
    bool may_answer;               // itself: it has `respond` or `redirect`, or answers preflights
    const RespondConfig* respond;  // instead of targets; null: none
    std::optional<Redirect> redirect;  // instead of targets
    std::vector<Target> targets;
    const CanaryTrial* canary;       // null: it has none
    std::size_t canary_target;       // of the targets
    std::string_view sticky_header;  // of a split: see conversation_of
    std::uint64_t salt;              // of a split: see split_point
  };
  struct Place {
    std::size_t route;
    std::size_t target;
  };

  void add_route(const RouteConfig& config, const PoolSet& pool_set, const PlanPools& pools,
                 LabelUses& label_uses, LabelIndex& label_index);
  /// True if the route answers the request itself, which then goes to no pool.
  bool takes_fixed_response(Request& request, std::size_t route) const;
  void put_in(Request& request, const Place& place) const;
  Place place_on(std::size_t route, const Request& request);
  std::optional<Place> place_of_response(const Request& request) const;

  const Router router_;
  std::vector<Route> routes_;
  std::size_t routes_of_file_ = 0;
  std::map<std::string_view, std::size_t> picker_routes_;  // by their listener
  std::vector<const Forwarder*> knowing_;  // of pools with affinity by the ids of responses
  Duration max_call_{};                    // of gRPC calls whose pool is not known yet
  bool reads_bodies_ = false;
  bool has_auth_ = false;
  bool limits_by_model_ = false;
  Rng rng_;
};

}  // namespace evenkeel
