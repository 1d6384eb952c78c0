#include "evenkeel/proxy/forwarder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/client_key.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/upstream/redirect.h"
#include "proxy/attempt_outcome.h"
#include "proxy/attempt_progress.h"
#include "proxy/forwarded_body.h"
#include "proxy/load_reports.h"
#include "proxy/request_cost.h"
#include "proxy/response_listeners.h"
#include "proxy/session_sources.h"

namespace evenkeel {
namespace {

// One attempt per backend, and one on a fresh link.
static_assert(AttemptList::capacity >= ExcludedBackends::capacity + 2);

void record_failed_attempt(const Request& request, const Error& error, const Link& link,
                           const Backend& backend, Instant now) {
  AttemptResult result = classify(error);
  const bool in_order =
      error.fault == Fault::backend_closed && !error.reset_code && link.ended_in_order();
  if (in_order) {
    // No failure, but a backend that ends each of its connections must not look idle.
    if (result.outcome == AttemptOutcome::failed) backend.stats().count_failure(now);
    return;
  }
  result.safe_method = is_safe_method(request.method);
  result.sent = request.info.timings.head_sent;
  backend.record_outcome(result, now);
}

/// The tunnel of an upgrade is a matter of HTTP/1.1.
LinkPool::LinkProtocol protocol_of(const Request& request) {
  return request.upgrade.empty() ? LinkPool::LinkProtocol::any : LinkPool::LinkProtocol::http1;
}

/// Records the time until a link is ready, the attempt fails, or the request is dropped.
class ConnectTime {
 public:
  ConnectTime(Loop& loop, RequestInfo& info) : loop_(loop), info_(info), began_(loop.now()) {}
  ConnectTime(const ConnectTime&) = delete;
  ~ConnectTime() {
    const Duration took = loop_.now() - began_;
    info_.outcome.attempts.back().connect = took;
    info_.timings.connected += took;
  }

 private:
  Loop& loop_;
  RequestInfo& info_;
  Instant began_;
};

/// Only evenkeel itself may set these; a client would take those of a backend for ours.
bool is_own_field(const Field& field) {
  constexpr std::string_view prefix = "x-evenkeel-";
  return field.id == FieldId::other && field.name_size > prefix.size() &&
         equals_ignore_case(field.name().substr(0, prefix.size()), prefix);
}

bool is_accept_encoding(const Field& field) {
  return equals_ignore_case(field.name(), "accept-encoding");
}

void remove_own_fields(Fields& fields) {
  if (std::any_of(fields.begin(), fields.end(), is_own_field)) [[unlikely]] {
    fields.remove_if(is_own_field);
  }
}

/// The backend has done what was asked: 101 for a tunnel.
bool is_success(int status) { return status == 101 || (status >= 200 && status < 300); }

/// Has the client look for what a redirect names where it has sent its request: it may not be able
/// to resolve the backend's own name.
void localise_redirect(const Request& request, Response& response) {
  const bool redirects =
      response.status == 201 || (response.status >= 300 && response.status < 400);
  if (!redirects) return;
  const auto location = response.fields.value("location");
  if (!location) return;
  const std::string_view path = path_at(request.backend_authority, *location);
  if (path.empty()) return;
  std::string local;
  if (path.starts_with("//")) local = "/.";  // or it would be read as another host
  if (!path.starts_with('/')) local = "/";
  local += path;
  response.fields.remove("location");
  response.fields.add("location", response.fields.keep(local));
}

/// Tells the client the name of its session.
void name_session(std::string_view session, const Request& request, Response& response) {
  const bool secure = request.fields.value(FieldId::x_forwarded_proto) == "https";
  response.fields.add("set-cookie", response.fields.keep(session_cookie(session, secure)));
}

}  // namespace

Forwarder::Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
                     std::unordered_map<const Backend*, Target> targets,
                     WorkerMetrics& worker_metrics, ForwarderOptions options)
    : loop_(loop),
      pool_(std::move(state), loop, seed),
      targets_(std::move(targets)),
      worker_metrics_(worker_metrics),
      metrics_(worker_metrics.pool(options.pool_index)),
      options_(std::move(options)),
      rng_(~seed) {}

// Long: the attempts of one request in one coroutine, whose frame is all that they cost.
Task<Result<Response>> Forwarder::forward(Request& request, Lease lease) {
  Progress progress{.hint = hint_of(request)};
  const RouteRules* const rules = rules_of(request.info.identity);
  progress.policy = rules != nullptr && rules->retry ? &*rules->retry : &options_.retry;
  if (options_.schedules && has_predicted_cost(request)) {
    const SloConfig slo = rules != nullptr ? rules->slo_in(options_.slo) : options_.slo;
    RequestCost& cost = progress.cost.emplace(cost_of(request, slo, options_.served_model));
    std::uint64_t& number = request.info.inference->number;
    if (number == 0) number = rng_();
    cost.request = number;
    cost.wants_record = wants_explanation(request);
    progress.hint.cost = &cost;
  }
  if (options_.sessions != nullptr) find_session(request, progress);
  if (options_.reads_load_reports) ask_for_load_report(request);
  if (request.body != nullptr) keep_body(request, progress);
  while (true) {
    if (!lease) {
      auto placed = co_await acquire(request, progress);
      if (!placed && progress.held) co_return progress.give_up(request);
      if (!placed) {
        if (progress.cost && progress.cost->wants_record) [[unlikely]]
          explain_refusal(request);
        co_return std::move(placed.error());
      }
      lease = std::move(*placed);
    }
    const Backend& backend = *lease.backend();
    const auto found = targets_.find(&backend);
    if (found == targets_.end()) [[unlikely]] {
      auto response = co_await forward_by_successor(request, std::move(lease));
      co_return response;
    }
    Target& target = found->second;
    const bool has_session = progress.hint.session.has_value();
    if (has_session && lease.begins_session()) progress.hint.session->began_here = true;
    const bool confirms_session = has_session && !lease.session_confirmed();
    progress.credentials.apply_to(request, target.authorization);
    request.backend_authority = target.host;

    // The second time on a fresh link, if the first one had ended.
    auto link_choice = LinkPool::LinkChoice::any;
    do {
      begin_attempt(request.info, backend, progress);
      std::optional<ConnectTime> connect_time(std::in_place, loop_, request.info);
      auto link = co_await target.links->acquire(link_choice, protocol_of(request));
      connect_time.reset();
      if (!link) {
        progress.next = next_after_failed_connect(link.error(), backend);
        fail_attempt(request.info, backend, std::move(link.error()), progress);
      } else {
        begin_sending(request, backend, link->newly_connected(), progress);
        auto sending = (*link)->send(request);
        if (has_timeout(request, progress, backend)) [[unlikely]] {
          co_await limit_attempt(request, progress, backend, sending);
        }
        auto response = co_await sending;
        if (response) {
          // The lease is gone then, so the inner loop ends: `next` is never `same_backend` here.
          const AttemptOutcome outcome = complete(request, *response, lease, *link, target);
          progress.next = Next::done;
          if (counts_against_backend(outcome)) [[unlikely]] {
            auto next = co_await replace_answer(request, progress, backend, *response);
            progress.next = next;
          }
          if (progress.next == Next::done) {
            progress.credentials.restore(request);
            if (request.body != nullptr) {
              request.body->commit(request.info.timings.uploaded != Instant{});
            }
            if (confirms_session && is_success(response->status)) [[unlikely]]
              pool_.confirm_session(*progress.hint.session, backend);
            if (options_.sessions != nullptr) learn_sessions(request, *response, backend, progress);
            if (!progress.new_session.empty())
              name_session(progress.new_session, request, *response);
            co_return response;
          }
          progress.hold(std::move(response), request.info, loop_.now());
        } else {
          progress.next = next_after_failure(request, response.error(), **link, backend, progress);
          record_failed_attempt(request, response.error(), **link, backend, loop_.now());
          fail_attempt(request.info, backend, std::move(response.error()), progress);
        }
      }
      link_choice = LinkPool::LinkChoice::fresh;
    } while (progress.next == Next::same_backend);

    if (progress.next == Next::done || progress.hint.excluded.full()) {
      co_return progress.give_up(request);
    }
    progress.hint.excluded.add(&backend);
    lease.release();
    if (progress.waits) co_await back_off(progress);
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

/// Notes an offer to a backend.
void Forwarder::begin_attempt(RequestInfo& info, const Backend& backend, const Progress& progress) {
  info.outcome.backend = backend.spec().address;
  info.outcome.attempts.add({.backend = info.outcome.backend});
  info.outcome.stream_reset = false;
  if (progress.last_fault) [[unlikely]] {
    metrics_.retries.count(*progress.last_fault);
    progress.count_retry_time(info.timings);
  }
}

void Forwarder::begin_sending(Request& request, const Backend& backend, bool newly_connected,
                              Progress& progress) {
  if (newly_connected) backend.connected();
  progress.paid.spend();
  RequestTimings& timings = request.info.timings;
  timings.head_sent = loop_.read_clock();
  timings.uploaded = {};
  if (progress.sent++ == 0) progress.first_sent = timings.head_sent;
  if (timings.deadline != never) rewrite_grpc_timeout(request, timings.head_sent);
  if (request.info.inference != nullptr && request.info.inference->wants_usage)
    ask_for_usage(request, backend);
  const bool counts = pool_.state().spec().notices_silence;
  request.awaiting_clients = counts ? &backend.slots().awaiting_clients() : nullptr;
}

/// Where the client did not ask for the usage of its stream. The backend is asked if its engine
/// gives it: others may refuse a request with `stream_options`.
void Forwarder::ask_for_usage(Request& request, const Backend& backend) const {
  const Engine& engine = engine_of(backend);
  InferenceInfo& info = *request.info.inference;
  info.usage_added = engine.gives_stream_usage;
  info.keeps_null_usage = engine.writes_null_usage;
  // A compressed stream could not be read.
  if (info.usage_added) request.fields.remove_if(is_accept_encoding);
}

/// Ties the lease and the link to the body of a response, which takes them over. Records what its
/// head says. By reference: should memory run out, the body that the link has sent is to end before
/// the link does.
AttemptOutcome Forwarder::complete(Request& request, Response& response, Lease& lease,
                                   LinkLease& link, const Target& target) {
  remove_own_fields(response.fields);
  if (!request.backend_authority.empty()) [[unlikely]]
    localise_redirect(request, response);
  RequestInfo& info = request.info;
  info.outcome.backend_index = target.index;
  if (lease.placed() != nullptr) {
    info.inference->listener = std::make_unique<SchedulerListener>(lease.placed());
  }
  const Backend& backend = *lease.backend();
  if (backend.state().connect_failures() != 0) [[unlikely]]
    backend.answered(info.timings.head_sent);
  AttemptResult result = classify_head(request, response);
  result.sent = info.timings.head_sent;
  const bool counts = counts_against_backend(result.outcome);
  std::string_view json_error;
  if (response.status == 500) [[unlikely]]
    json_error = engine_of(backend).refusals.json_error;
  if (counts && json_error.empty()) [[unlikely]]
    backend.record_outcome(result, loop_.now());
  if (options_.debug_headers) add_debug_headers(backend, response);
  if (lease.placed() != nullptr && wants_explanation(request)) [[unlikely]] {
    add_explanation(*lease.placed(), response);
  }
  const bool finds_errors =
      options_.finds_stream_errors || backend.findings().detected_engine() != 0;
  response.body = ForwardedBody::create(loop_, std::move(lease), std::move(link), request, response,
                                        result.outcome, json_error, *target.metrics, finds_errors);
  if (options_.reads_load_reports) [[unlikely]]
    take_load_report(loop_, backend, request, response);
  const PoolState& pool = pool_.state();
  if (!counts) pool.retry_budget().deposit(pool.spec().retry_budget);
  return result.outcome;
}

Forwarder::Next Forwarder::next_after_failed_connect(const Error& error,
                                                     const Backend& backend) const {
  if (error.side == Side::backend) {
    backend.record_outcome({.outcome = AttemptOutcome::unreachable, .fault = error.fault},
                           loop_.now());
  }
  return Next::other_backend;
}

/// A backend that has ended the link gets the request again, over a fresh link, once. If it says
/// itself that it has not processed the request, another one may get it. Beyond that, the policy
/// decides.
Forwarder::Next Forwarder::next_after_failure(Request& request, const Error& error, Link& link,
                                              const Backend& backend, Progress& progress) {
  if (may_resend(error, request)) {
    const bool link_ended = error.idle_close_race || !link.alive(false);
    const bool same = link_ended && !progress.resent;
    if (same || error.not_processed) --progress.sent;
    if (same) return Next::same_backend;
    if (error.not_processed) return Next::other_backend;
  }
  const RetryPolicy& policy = *progress.policy;
  const bool again = policy.retries(error, policy.is_idempotent(request)) &&
                     may_retry(request, progress, backend) && rewind(request) &&
                     spend_budget(progress);
  if (!again) return Next::done;
  progress.waits = true;
  return Next::other_backend;
}

void Forwarder::fail_attempt(RequestInfo& info, const Backend& backend, Error error,
                             Progress& progress) const {
  info.outcome.attempts.back().fault = error.fault;
  const Instant now = loop_.now();
  const bool counts = error.side == Side::backend && !error.awaited_client;
  if (counts && progress.next != Next::same_backend) {
    backend.stats().count_error(error.fault);
    if (progress.next == Next::done) {
      backend.stats().record_failure(now - info.timings.head_sent, now);
    }
  }
  if (progress.next == Next::same_backend) progress.resent = true;
  progress.hold(std::move(error), info, now);
}

Hint Forwarder::hint_of(const Request& request) const {
  const RequestIdentity& identity = request.info.identity;
  Hint hint{.subset = identity.subset,
            .session_subset = identity.session_subset,
            .priority = identity.priority,
            .tenant = sharing_tenant(identity),
            .client = identity.client};
  if (options_.hash_header) {
    if (const auto value = request.fields.value(*options_.hash_header)) hint.key = hash_of(*value);
  } else if (request.info.inference != nullptr) {
    const InferenceRequest& asked = request.info.inference->request;
    hint.key =
        pool_.key_of(hint, {.blocks = asked.prefix_blocks, .conversation = asked.conversation});
  }
  return hint;
}

/// An id that a server has handed out counts before all else. A browser, which names no session,
/// gets a cookie that names one.
void Forwarder::find_session(Request& request, Progress& progress) {
  const SessionSources& sources = *options_.sessions;
  Hint& hint = progress.hint;
  if (sources.by_response_id()) progress.response_id = find_response_id(request);
  if (progress.response_id && knows(*progress.response_id)) {
    hint.session = SessionHint{.key = *progress.response_id};
  } else {
    hint.session = sources.find(request);
  }
  // An answer that is compressed could not be read.
  if (sources.reads_answer(request)) request.fields.remove_if(is_accept_encoding);
  if (!hint.session && sources.sets_cookie()) {
    progress.new_session = fmt::format("{:016x}{:016x}", rng_(), rng_());
    hint.session = {.key = hash_of(progress.new_session), .is_unconfirmed = true};
  }
  // Replicas then place the first request of a session alike.
  if (hint.session && !hint.key) hint.key = hint.session->key;
}

bool Forwarder::knows(std::uint64_t response_id) const {
  return options_.sessions != nullptr && options_.sessions->by_response_id() &&
         pool_.state().knows(response_id, loop_.now());
}

bool Forwarder::awaits_session(const Request& request) const {
  return options_.sessions != nullptr && options_.sessions->awaits_name(request);
}

/// Pins what the answer names to its backend, and the id that the request has, if the backend knew
/// it.
void Forwarder::learn_sessions(const Request& request, const Response& response,
                               const Backend& backend, const Progress& progress) const {
  const SessionSources& sources = *options_.sessions;
  if (!sources.learns() || response.status >= 400) return;
  const Instant now = loop_.now();
  const AnswerPins pins = pool_.state().answer_pins(backend);
  sources.learn(request, response, pins, now);
  if (progress.response_id) pins.pin(*progress.response_id, true, now);
  if (!sources.reads_answer(request)) return;
  InferenceInfo& inference = *request.info.inference;
  inference.wants_id = true;
  inference.listener = std::make_unique<IdListener>(pins, std::move(inference.listener));
}

/// For clients that may know of backends: behind a trusted proxy, or of pools that name them to
/// all.
bool Forwarder::wants_explanation(const Request& request) const {
  constexpr std::string_view name = "x-evenkeel-explain";
  for (const Field& field : request.fields) {
    if (field.name_size != name.size() || !equals_ignore_case(field.name(), name)) [[likely]]
      continue;
    return field.value() == "proxy" || options_.debug_headers;
  }
  return false;
}

void Forwarder::add_explanation(const PlacedRequest& placed, Response& response) {
  const auto explanation = placed.explanation();
  if (!explanation) return;
  response.fields.add("x-evenkeel-decision", response.fields.keep(compact_text(*explanation)));
}

/// Of the last attempt, which no backend got; nothing if it did not reach the scheduler. Other
/// requests may have the same id.
void Forwarder::explain_refusal(Request& request) const {
  InferenceInfo& inference = *request.info.inference;
  const auto last = pool_.state().last_decision(request.info.identity.request_id, inference.number);
  if (!last) return;
  using Fate = Decision::Fate;
  const Fate fate = last->decision.fate;
  if (fate != Fate::refused && fate != Fate::left) return;
  inference.refusal = request.fields.keep(compact_text(*last));
}

void Forwarder::add_debug_headers(const Backend& backend, Response& response) const {
  response.fields.add("x-evenkeel-backend", backend.spec().address);
  response.fields.add("x-evenkeel-pool", options_.pool);
}

}  // namespace evenkeel
