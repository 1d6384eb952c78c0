// Sends a request to a backend of its pool; the response holds the lease and the link until it
// ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/engine.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/proxy/retry_policy.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

class HeldBodies;
class RetryLoop;
class SessionSources;
struct RequestCost;

/// A backend as one worker reaches it.
struct BackendAccess {
  std::shared_ptr<LinkPool> links;
  BackendMetrics* metrics;
  std::uint32_t index = 0;                 ///< of LabelIndex
  std::string_view endpoint = {};          ///< its address and port; empty: its name has none
  const BackendCredential* key = nullptr;  ///< replaces the client's credentials; null: keeps them
  std::string_view host = {};  ///< replaces the Host that the client named; empty: keeps it
  bool is_hosted = false;      ///< of a hosted pool: gets nothing that tells of clients
};

/// What a route says of its requests in place of their pool. PlanPools fills it.
struct RouteRules {
  std::string_view route;
  std::optional<RetryPolicy> retry;
  SloConfig slo;
  RouteTimeouts timeouts{};

  bool empty() const { return !retry && slo == SloConfig{} && timeouts == RouteTimeouts{}; }
  /// Gives a request the timeouts of its route.
  void set_timeouts(RequestTimings& timings) const {
    timings.first_byte_timeout = timeouts.first_byte;
    timings.idle_timeout = timeouts.idle;
  }
  /// The targets of a pool's requests by this route.
  SloConfig slo_in(const SloConfig& pool) const {
    constexpr std::chrono::milliseconds none{};
    return {.ttft = slo.ttft != none ? slo.ttft : pool.ttft,
            .tpot = slo.tpot != none ? slo.tpot : pool.tpot};
  }
};

/// What a forwarder has beside the configuration of its pool.
struct ForwarderOptions {
  std::uint32_t pool_index = 0;            ///< of LabelIndex
  std::optional<std::string> hash_header;  ///< requests with the same value share a backend
  /// hash_of the model's name that its backends get, whatever its clients ask for; 0: they get
  /// that.
  std::uint64_t served_model = 0;
  /// What names the sessions that the pool pins to backends; null: it pins none.
  std::shared_ptr<const SessionSources> sessions;
  RetryPolicy retry{RetryRules{}};
  /// The rules of all routes, in the order of the file; null: no route has any. Outlives the
  /// forwarder.
  const std::vector<RouteRules>* rules = nullptr;
  const Engine* engine = &generic_engine;  ///< of its backends, as the file has it
  /// True if errors in the events of all its backends count as failures; else only of those whose
  /// engine was detected.
  bool finds_stream_errors = false;
  /// What request bodies are kept in for retries. Null: they are not kept.
  HeldBodies* held_bodies = nullptr;
  /// How much one worker may hold of them, all pools together.
  std::uint64_t max_held_bytes = ProcessLimits{}.held_bodies_bytes;
};

/// The end of the filter chain for one pool. Thread: one worker's.
///
/// A request goes to another backend if this one cannot be connected, or says that it has not
/// processed the request. If the backend was closing an idle link, the request is resent once
/// (docs/decisions.md, 2). Beyond that the RetryPolicy and the pool's budget
/// decide. If no other backend takes the request, the client gets the answer of the first.
class Forwarder final : public Handler {
 public:
  Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
            std::unordered_map<const Backend*, BackendAccess> backends,
            WorkerMetrics& worker_metrics, ForwarderOptions options);

  Task<Result<Response>> handle(Request& request) override { return forward(request, Lease()); }

  /// Requests that wait for a slot, and have not been sent anywhere, wait for one of this forwarder
  /// of a later version from now on, which sends them. `plan` owns it. Null: they stay.
  void hand_queue_to(Forwarder* successor, const std::shared_ptr<const void>& plan);
  const PoolState& state() const { return pool_.state(); }
  /// True if a backend of the pool has handed out this id of a response or a conversation, a key as
  /// SessionHint has it, and alone knows what it stands for.
  bool knows(std::uint64_t response_id) const;
  /// True if the rest of the request's body, which is being read, may name its session.
  bool awaits_session(const Request& request) const;

 private:
  /// `lease`: the slot that the request has already; empty: none.
  Task<Result<Response>> forward(Request& request, Lease lease);

  const RouteRules* rules_of(const RequestIdentity& identity) const;
  const RetryPolicy& policy_of(const RouteRules* rules) const {
    return rules != nullptr && rules->retry ? *rules->retry : options_.retry;
  }
  Hint hint_of(const Request& request);
  bool is_explained(const Request& request);
  std::optional<RequestCost> predict_cost(Request& request, const RouteRules* rules);
  Task<Result<Lease>> acquire(Request& request, const Hint& hint, const RetryLoop& retries);
  Task<Result<Lease>> wait_in_queue(Task<Result<Lease>> placed, Request& request);
  bool successor_has(const Lease& lease) const;
  Task<Result<Response>> forward_by_successor(Request& request, Lease lease) const;

  Loop& loop_;
  Pool pool_;
  std::unordered_map<const Backend*, BackendAccess> backends_;
  WorkerMetrics& worker_metrics_;
  PoolMetrics& metrics_;
  ForwarderOptions options_;
  Rng rng_;
  std::uint32_t picks_ = 0;
  Forwarder* successor_ = nullptr;
  std::weak_ptr<const void> successor_plan_;  // owns it
  std::shared_ptr<const void> kept_plan_;     // the same, if no later version takes its requests
};

}  // namespace evenkeel
