// Everything that one worker needs to serve requests, built from one configuration. Immutable in
// shape, replaced between requests, destroyed when its last request has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/balance/pool.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/filter/grpc.h"
#include "evenkeel/filter/inspect.h"
#include "evenkeel/filter/observe.h"
#include "evenkeel/filter/rewrite.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/router.h"
#include "evenkeel/proxy/worker_context.h"
#include "evenkeel/proxy/worker_links.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// The names of the pools whose models a plan has to know to list them for clients. Empty for most
/// files: backends list their own.
std::set<std::string> pools_to_list(const Config& config);

class ModelDirectory;
class OllamaLists;
class Tenants;

class Plan final : public Handler {
 public:
  /// `predecessor`: this worker's active plan, or null. Links to backends that have not changed are
  /// taken over from it. REQUIRES: the pool set was built from this configuration.
  Plan(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
       const WorkerContext& worker, const Plan* predecessor = nullptr);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() override;

  /// Finds the route, then passes the request to the filters of its pool. If the route depends on
  /// the body, the filters come first.
  Task<Result<Response>> handle(Request& request) override;

  WorkerLinks& links() { return links_; }

  /// Requests that wait in the queue of a pool whose backends are others in `successor` go on there
  /// (Forwarder::hand_queue_to), unless it changes bodies for them in another way.
  void hand_queues_to(const std::shared_ptr<Plan>& successor);

  /// The TLS context for new connections to a listener; null: without TLS.
  std::shared_ptr<const TlsServerContext> tls_of(std::string_view listener) const {
    return pool_set_->tls_of(listener);
  }

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
  /// Behind the filters of requests whose route depends on their bodies.
  struct ByBody final : Handler {
    explicit ByBody(Plan& own_plan) : plan(own_plan) {}
    Task<Result<Response>> handle(Request& request) override {
      return plan.handle_inspected(request);
    }
    Plan& plan;
  };
  /// Refuses requests that no route matches.
  struct Unrouted final : Handler {
    explicit Unrouted(const Plan& own_plan) : plan(own_plan) {}
    Task<Result<Response>> handle(Request& request) override { return plan.refuse(request); }
    const Plan& plan;
  };
  /// Behind the filter `inspect`, which may have waited for a body while the worker got another
  /// plan: that one places the request.
  struct Renewal final : Filter {
    Renewal(const Plan& own_plan, const std::shared_ptr<Plan>* active_plan)
        : own(own_plan), active(active_plan) {}
    Task<Result<Response>> handle(Request& request, Handler& next) override;
    const Plan& own;
    const std::shared_ptr<Plan>* active;
  };
  /// What the filter `inspect` reads on for.
  struct Placement final : PlacementNeeds {
    explicit Placement(const Plan& own_plan) : plan(own_plan) {}
    bool need_more(const Request& request) const override { return plan.needs_more(request); }
    const Plan& plan;
  };
  using PoolNumbers = std::unordered_map<std::string_view, std::size_t>;  // by name
  /// One of the pools of a route, or a part of one.
  struct WeightedTarget {
    Handler* first;     // the first of its filters
    Handler* observed;  // behind the filters that every pool has: reads its responses
    Duration grpc_deadline;
    std::string_view pool;
    std::size_t pool_number;
    std::uint32_t pool_index;
    std::uint32_t subset;             // of the pool: see Hint
    std::uint32_t session_subset;     // of the pool: see Hint
    std::uint32_t cumulative_weight;  // of this target and those before it
  };
  struct Route {
    std::string name;
    std::uint32_t index;          // of LabelIndex
    bool grpc_only;               // matches gRPC calls only
    bool splits_by_body = false;  // its pool may follow from a conversation that a body tells
    bool looks_further = false;   // its pool may not follow from the head alone
    bool renames = false;         // backends may get another name of the model than clients gave
    std::optional<RetryPolicy> retry;
    const SloConfig* slo;  // null: the pools'
    std::optional<Priority> priority;
    std::vector<WeightedTarget> targets;
    std::string_view sticky_header;  // of a split: see conversation_of
    std::uint64_t salt;              // of a split: see split_point
  };

  /// The route of a request.
  struct Place {
    std::size_t route;
    const WeightedTarget* target = nullptr;  // null: to be drawn
  };

  void add_pool(const PoolConfig& pool, const PoolSet::PoolEntry& pool_entry,
                const WorkerContext& worker);
  void follow_fallbacks(const WorkerContext& worker);
  void add_answering_pools(std::uint32_t route, std::size_t number, LabelIndex& label_index) const;
  void add_route(const RouteConfig& route, LabelIndex& label_index);
  /// `inspects`: the bodies of its requests are read.
  Handler& build_filter_chain(Handler& last, GrpcFilter& grpc, bool inspects);
  static Task<Result<Response>> pass_to(const WeightedTarget& target, Request& request);
  Task<Result<Response>> handle_inspected(Request& request);
  bool needs_body(const Request& request) const;
  bool needs_more(const Request& request) const;
  static bool have_same_targets(const Route& one, const Route& other);
  std::optional<Place> place_of_head(const Request& request, const RouteChoice& route) const;
  std::optional<Place> place_of_response(const Request& request) const;
  const WeightedTarget& choose_target(Request& request, const Place& place);
  Handler& add_stage(Filter& filter, Handler& next);
  const WeightedTarget& draw_target(const Route& plan_route, const Request& request);
  void add_model_directory(const WorkerContext& worker);
  void add_ollama_lists(const WorkerContext& worker);
  template <class Lists>
  bool is_answered_by(const Lists* lists, Request& request) const;
  Result<Response> refuse(Request& request) const;

  std::shared_ptr<const Config> config_;
  std::shared_ptr<const PoolSet> pool_set_;
  LabelUses label_uses_;
  WorkerLinks links_;
  Router router_;
  Rng rng_;
  AccessLogFilter access_log_;
  std::deque<GrpcFilter> grpc_;  // of each pool, and of no pool
  ForwardingHeadersFilter forwarding_headers_;
  WorkerMetrics& worker_metrics_;
  Placement placement_{*this};
  InspectFilter inspect_;
  Renewal renewal_;
  std::deque<RewriteFilter> rewrites_;   // of pools that need one
  std::deque<ObserveFilter> observers_;  // of each pool
  std::vector<std::unique_ptr<Handler>> handlers_;
  PoolNumbers pool_numbers_;
  std::vector<bool> reads_bodies_;  // of each pool: it inspects requests, or what it falls back to
  std::vector<bool> renames_;       // likewise: it gives backends another name of the model
  bool knows_responses_ = false;    // a pool has affinity by the ids of responses
  std::vector<Forwarder*> queues_;  // of each pool
  std::vector<Handler*> forwarders_;     // the same, behind its filter that changes bodies
  std::vector<Handler*> last_handlers_;  // of each pool: its forwarder, or what falls back from it
  std::vector<Handler*> observed_;       // the same, behind its filter `observe`
  std::vector<Handler*> pool_chains_;    // the first filter of each pool
  std::vector<Route> routes_;
  std::unique_ptr<Tenants> tenants_;  // null: the file names none
  Handler* by_body_;                  // of requests whose route depends on their bodies
  Handler* unrouted_;
  ModelDirectory* model_directory_ = nullptr;  // null: backends answer GET /v1/models
  Handler* model_chain_ = nullptr;             // the first filter before it
  OllamaLists* ollama_lists_ = nullptr;        // null: there is one pool
  Handler* ollama_chain_ = nullptr;            // the first filter before it
  Handler* refusing_;                          // for all requests while memory is scarce
  const MemoryPressureLevel* memory_pressure_;
};

}  // namespace evenkeel
