#include "evenkeel/proxy/forwarder.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/http/client_key.h"
#include "proxy/attempt.h"
#include "proxy/explanation.h"
#include "proxy/kept_plans.h"
#include "proxy/load_reports.h"
#include "proxy/request_cost.h"
#include "proxy/request_session.h"
#include "proxy/retry_loop.h"

namespace evenkeel {
namespace {

/// Every Nth pick is timed: reading the clock twice takes longer than a pick.
constexpr std::uint32_t pick_timing_interval = 16;

/// Counts a request as queued while it lives. Its destructor records the time in the queue.
class QueuedTime {
 public:
  /// `tenant` null: the file names none.
  QueuedTime(Loop& loop, Gauge& pool, Gauge* tenant, RequestTimings& timings)
      : loop_(loop), pool_(pool), tenant_(tenant), timings_(timings), began_(loop.now()) {
    pool_.add();
    if (tenant_ != nullptr) tenant_->add();
    if (timings.queued == Instant{}) timings.queued = began_;
  }
  QueuedTime(const QueuedTime&) = delete;
  ~QueuedTime() {
    pool_.remove();
    if (tenant_ != nullptr) tenant_->remove();
    timings_.waited += loop_.now() - began_;
  }

 private:
  Loop& loop_;
  Gauge& pool_;
  Gauge* tenant_;
  RequestTimings& timings_;
  Instant began_;
};

/// Keeps a request to the backends that its data plane allows, while it lives.
class DataPlaneSubset {
 public:
  DataPlaneSubset(const Request& request,
                  const std::unordered_map<const Backend*, BackendAccess>& backends, Hint& hint) {
    if (request.carrier == nullptr) [[likely]]
      return;
    // Its carrier has set the field.
    if (const auto subset = request.fields.value("x-gateway-destination-endpoint-subset")) {
      read(*subset, backends);
      hint.excluded.keep_to(allowed_);
    }
  }
  DataPlaneSubset(const DataPlaneSubset&) = delete;
  DataPlaneSubset& operator=(const DataPlaneSubset&) = delete;

 private:
  /// `subset`: addresses and ports, with commas between them.
  void read(std::string_view subset,
            const std::unordered_map<const Backend*, BackendAccess>& backends) {
    std::unordered_set<std::string_view> endpoints;
    while (!subset.empty()) {
      const std::size_t end = std::min(subset.find(','), subset.size());
      endpoints.insert(trimmed(subset.substr(0, end)));
      subset.remove_prefix(std::min(end + 1, subset.size()));
    }
    for (const auto& [backend, access] : backends) {
      if (endpoints.contains(access.endpoint)) allowed_.push_back(backend);
    }
  }

  std::vector<const Backend*> allowed_;
};

}  // namespace

Forwarder::Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
                     std::unordered_map<const Backend*, BackendAccess> backends,
                     WorkerMetrics& worker_metrics, ForwarderOptions options)
    : loop_(loop),
      pool_(std::move(state), loop, seed),
      backends_(std::move(backends)),
      worker_metrics_(worker_metrics),
      metrics_(worker_metrics.pool(options.pool_index)),
      options_(std::move(options)),
      rng_(~seed) {}

/// The attempts of one request in one coroutine, whose frame is all that they cost.
// Long: whatever awaits is in that frame.
Task<Result<Response>> Forwarder::forward(Request& request, Lease lease) {
  Hint hint = hint_of(request);
  const DataPlaneSubset subset(request, backends_, hint);
  const RouteRules* const rules = rules_of(request.info.identity);
  if (rules != nullptr) rules->set_timeouts(request.info.timings);
  const std::optional<RequestCost> cost = predict_cost(request, rules);
  if (cost) hint.cost = &*cost;
  RequestSession session(options_.sessions.get(), pool_, hint);
  session.find(request, rng_, loop_.now());
  if (state().config().metrics.orca) ask_for_load_report(request);
  RetryLoop retries({loop_, pool_.state(), metrics_, options_}, policy_of(rules), hint, request);
  if (lease) [[unlikely]]
    session.on_moved(lease);
  while (true) {
    bool is_moved = false;  // a later version of the pool sends it
    if (!lease) {
      if (retries.waits()) co_await retries.back_off(rng_);
      auto placed = co_await acquire(request, hint, retries);
      if (!placed && retries.holds_result()) co_return retries.give_up();
      if (!placed) {
        if (cost && cost->wants_record) explain_refusal(pool_.state(), request);
        co_return std::move(placed.error());
      }
      lease = std::move(*placed);
      is_moved = successor_ != nullptr && hint.excluded.empty() && !retries.holds_result() &&
                 successor_has(lease);
    }
    const auto access = backends_.find(lease.backend().get());
    if (is_moved || access == backends_.end()) [[unlikely]] {
      auto response = co_await forward_by_successor(request, std::move(lease));
      co_return response;
    }
    session.on_placed(lease);
    Attempt attempt = retries.begin(lease, access->second);
    auto link = co_await attempt.connect(retries.link_choice());
    if (link) {
      auto sending = attempt.send(std::move(*link));
      retries.on_sent();
      if (retries.has_time_limit(attempt)) co_await retries.limit_time(attempt, sending);
      auto response = co_await sending;
      if (response) {
        bool is_last = retries.accepts(attempt.complete(*response));
        if (!is_last) [[unlikely]] {
          const bool replaced = co_await retries.replaces(attempt, *response);
          is_last = !replaced;
        }
        if (is_last) {
          retries.finish();
          session.on_answer(request, *response, attempt.backend(), loop_.now());
          co_return response;
        }
      } else {
        retries.fail(attempt, std::move(response.error()));
      }
    } else {
      retries.fail(attempt, std::move(link.error()));
    }
    if (!retries.goes_on(attempt)) co_return retries.give_up();
    if (!retries.keeps_backend()) lease.release();
  }
}

/// What the request's route says; null if it leaves all to its pools. A request that waited for a
/// slot may come from an earlier version of the file, in which its route had another number.
const RouteRules* Forwarder::rules_of(const RequestIdentity& identity) const {
  if (options_.rules == nullptr || identity.routing.state != RouteState::routed) [[likely]]
    return nullptr;
  const std::uint32_t route = identity.routing.route;
  if (route >= options_.rules->size()) return nullptr;
  const RouteRules& rules = (*options_.rules)[route];
  return rules.route == identity.route ? &rules : nullptr;
}

Hint Forwarder::hint_of(const Request& request) {
  const RequestIdentity& identity = request.info.identity;
  Hint hint{.subset = identity.subset,
            .session_subset = identity.session_subset,
            .priority = identity.priority,
            .tenant = sharing_tenant(identity),
            .client = identity.client};
  if (is_explained(request)) [[unlikely]]
    hint.explained_id = identity.request_id;
  if (options_.hash_header) {
    if (const auto value = request.fields.value(*options_.hash_header)) hint.key = hash_of(*value);
  } else if (request.info.inference != nullptr) {
    const InferenceRequest& asked = request.info.inference->request;
    hint.key =
        pool_.key_of(hint, {.blocks = asked.prefix_blocks, .conversation = asked.conversation});
  }
  return hint;
}

/// True if the pick of the request is recorded: its client asks for it, or it is a sample.
/// Schedulers take samples of their own.
bool Forwarder::is_explained(const Request& request) {
  const PoolConfig& config = state().config();
  if (wants_explanation(request, config.debug_headers)) [[unlikely]]
    return true;
  const std::uint32_t interval = config.picker.explain_one_in.value_or(0);
  return interval > 0 && picks_ % interval == 0;
}

/// What the scheduler is to know of the request; nothing in pools without one, and of a request
/// that generates no text.
std::optional<RequestCost> Forwarder::predict_cost(Request& request, const RouteRules* rules) {
  if (state().scheduled() == nullptr || !has_predicted_cost(request)) return std::nullopt;
  const SloConfig& pool_slo = state().config().picker.slo;
  const SloConfig slo = rules != nullptr ? rules->slo_in(pool_slo) : pool_slo;
  RequestCost cost = cost_of(request, slo, options_.served_model);
  std::uint64_t& number = request.info.inference->number;
  if (number == 0) number = rng_();
  cost.request = number;
  cost.wants_record = wants_explanation(request, state().config().debug_headers);
  return cost;
}

bool Forwarder::knows(std::uint64_t response_id) const {
  return options_.sessions != nullptr && options_.sessions->by_response_id() &&
         pool_.state().affinity()->knows(response_id, loop_.now());
}

bool Forwarder::awaits_session(const Request& request) const {
  return options_.sessions != nullptr && options_.sessions->awaits_name(request);
}

Task<Result<Lease>> Forwarder::acquire(Request& request, const Hint& hint,
                                       const RetryLoop& retries) {
  const bool timed = ++picks_ % pick_timing_interval == 0;
  const Instant began = timed ? loop_.read_clock() : Instant{};
  auto placed = pool_.acquire(hint, retries.deadline());
  if (placed.ready()) {
    if (timed) worker_metrics_.observe_pick(loop_.read_clock() - began);
    return placed;
  }
  retries.count_retry_time();
  return wait_in_queue(std::move(placed), request);
}

Task<Result<Lease>> Forwarder::wait_in_queue(Task<Result<Lease>> placed, Request& request) {
  const std::uint32_t tenant = request.info.identity.tenant.index;
  Gauge* const of_tenant = tenant == 0 ? nullptr : &worker_metrics_.tenant(tenant).waiting;
  const QueuedTime waiting(loop_, metrics_.waiting, of_tenant, request.info.timings);
  auto lease = co_await placed;
  co_return lease;
}

/// Keeps an earlier successor if there is none now: it still sends requests that moved to it.
void Forwarder::hand_queue_to(Forwarder* successor, const std::shared_ptr<const void>& plan) {
  pool_.hand_queue_to(successor == nullptr ? nullptr : &successor->pool_);
  if (successor == nullptr) {
    kept_plan_ = successor_plan_.lock();
    return;
  }
  successor_ = successor;
  successor_plan_ = plan;
  kept_plan_.reset();
}

/// True if the later version of the pool reaches the backend of the slot: by the address and with
/// the key that the file has now.
bool Forwarder::successor_has(const Lease& lease) const {
  return !successor_plan_.expired() && successor_->backends_.contains(lease.backend().get());
}

/// Goes on in the version of the pool that has the backend. If that has been replaced in the same
/// moment, the newest version places the request anew.
Task<Result<Response>> Forwarder::forward_by_successor(Request& request, Lease lease) const {
  const auto plan = successor_plan_.lock();
  if (plan == nullptr) {
    return Result<Response>(
        Error{.fault = Fault::no_backend, .detail = "the backend has left the pool"});
  }
  keep_too(request.info.plan, plan);
  RequestIdentity& identity = request.info.identity;
  const BackendSet& backends = state().backend_set();
  const BackendSet& next = successor_->state().backend_set();
  identity.subset = backends.number_in(next, identity.subset).value_or(0);
  identity.session_subset = backends.number_in(next, identity.session_subset).value_or(0);
  if (!successor_->backends_.contains(lease.backend().get())) lease.release();
  return successor_->forward(request, std::move(lease));
}

}  // namespace evenkeel
