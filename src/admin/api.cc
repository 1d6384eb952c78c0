#include "admin/api.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/authorization.h"
#include "admin/canaries.h"
#include "admin/change_record.h"
#include "admin/documents.h"
#include "admin/explanation.h"
#include "admin/log_levels.h"
#include "admin/metrics.h"
#include "admin/on_loop.h"
#include "admin/page.h"
#include "admin/requests_document.h"
#include "admin/scaling.h"
#include "admin/sessions_document.h"
#include "evenkeel/backend/unavailable.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/request_id.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

enum class AdminEndpoint : std::uint8_t {
  none,
  index,
  healthz,
  readyz,
  metrics,
  status,
  pools,
  backends,
  backend_action,
  recent_requests,
  decisions,
  events,
  history,
  access,
  config,
  explain,
  page,
  plain_page,
  reload,
  upgrade,
  purge,
  check,
  log_levels,
  set_log_levels,
  live,
  snapshot,
  sessions,
  tenants,
  scaling,
  canaries,
  restart_canary,
};

namespace {

constexpr Duration max_loop_silence = std::chrono::seconds(5);  // of a loop that is alive
constexpr Duration state_update_interval = std::chrono::milliseconds(250);
constexpr Duration max_snapshot_age = LiveFeed::interval;

constexpr std::array<std::pair<std::string_view, AdminEndpoint>, 26> endpoints = {
    {{"/", AdminEndpoint::index},
     {"/healthz", AdminEndpoint::healthz},
     {"/readyz", AdminEndpoint::readyz},
     {"/metrics", AdminEndpoint::metrics},
     {"/api/v1/status", AdminEndpoint::status},
     {"/api/v1/pools", AdminEndpoint::pools},
     {"/api/v1/backends", AdminEndpoint::backends},
     {"/api/v1/requests/recent", AdminEndpoint::recent_requests},
     {"/api/v1/reload", AdminEndpoint::reload},
     {"/api/v1/upgrade", AdminEndpoint::upgrade},
     {"/api/v1/cache/purge", AdminEndpoint::purge},
     {"/api/v1/check", AdminEndpoint::check},
     {"/api/v1/log", AdminEndpoint::log_levels},
     {"/api/v1/live", AdminEndpoint::live},
     {"/api/v1/snapshot", AdminEndpoint::snapshot},
     {"/api/v1/sessions", AdminEndpoint::sessions},
     {"/api/v1/tenants", AdminEndpoint::tenants},
     {"/api/v1/scaling", AdminEndpoint::scaling},
     {"/api/v1/canaries", AdminEndpoint::canaries},
     {"/api/v1/canaries/restart", AdminEndpoint::restart_canary},
     {"/api/v1/events", AdminEndpoint::events},
     {"/api/v1/history", AdminEndpoint::history},
     {"/api/v1/access", AdminEndpoint::access},
     {"/api/v1/explain", AdminEndpoint::explain},
     {"/api/v1/config", AdminEndpoint::config},
     {plain_page_path, AdminEndpoint::plain_page}}};

constexpr std::string_view no_such_endpoint = "no such endpoint; GET / lists them";

/// What is there, for a person who looks.
constexpr std::string_view index_text = R"(
GET  /healthz                      200 while the daemon's threads run
GET  /readyz                       200 while it should get requests; /readyz?verbose tells of pools
GET  /metrics                      Prometheus metrics
GET  /api/v1/status                version, configuration, connections, as JSON like the following
GET  /api/v1/pools                 each pool
GET  /api/v1/backends              each backend with its state, the reason for it, and its load
GET  /api/v1/requests/recent       the last requests to models
GET  /api/v1/decisions/REQUEST-ID  why a request went where it went, or failed
GET  /api/v1/explain?path=P&model=M where a request would go now; also method and host
GET  /api/v1/sessions?pool=NAME    where the sessions of pools are kept, and their last moves
GET  /api/v1/tenants               what each tenant uses, beside its weight and priority
GET  /api/v1/scaling               how many replicas each pool with `scaling` should have, and why
GET  /api/v1/canaries              each canary of a split: whether it is on trial, and how it does
GET  /api/v1/live                  changes once a second, as server-sent events
GET  /api/v1/snapshot              what the first of these events has, for clients that poll
GET  /api/v1/history?metric=NAME   up to 15 minutes of each backend, one value a second
GET  /api/v1/events                changes of backends' states and reloads, the last one first
GET  /api/v1/config                the configuration in use, and what the last reload changed
GET  /api/v1/access                whether this client may make changes
GET  /ui/                          the live page; /ui/plain is a table without script
POST /api/v1/backends/ID/drain     no new requests for a backend; also ID/undrain and ID/weight
POST /api/v1/cache/purge           drops the answers that pools keep; ?pool=NAME: those of one
POST /api/v1/canaries/restart      begins a trial again; ?route=NAME
POST /api/v1/check                 what a reload would refuse or change
POST /api/v1/reload                reads the configuration again
GET  /api/v1/log                   the level of each subsystem of the daemon's log
POST /api/v1/log                   sets them: {"level": "info", "levels": {"health": "debug"}}
POST /api/v1/upgrade               starts the installed binary, which takes over

`evenkeel ctl` and `evenkeel top` use these.
)";

AdminReply index_reply(const std::string& version) {
  return text_reply(200, fmt::format("evenkeel {}: admin listener\n{}", version, index_text));
}

constexpr std::string_view decisions_prefix = "/api/v1/decisions/";

bool is_post(AdminEndpoint endpoint) {
  return endpoint == AdminEndpoint::backend_action || endpoint == AdminEndpoint::reload ||
         endpoint == AdminEndpoint::upgrade || endpoint == AdminEndpoint::check ||
         endpoint == AdminEndpoint::set_log_levels || endpoint == AdminEndpoint::purge ||
         endpoint == AdminEndpoint::restart_canary;
}

AdminEndpoint find_endpoint(std::string_view path) {
  if (path.starts_with(decisions_prefix)) return AdminEndpoint::decisions;
  for (const auto& [own, endpoint] : endpoints) {
    if (own == path) return endpoint;
  }
  return AdminEndpoint::none;
}

AdminReply method_not_allowed(AdminEndpoint endpoint) {
  std::string allowed = is_post(endpoint) ? "POST" : "GET, HEAD";
  if (endpoint == AdminEndpoint::log_levels) allowed += ", POST";
  AdminReply reply = error_reply(405, "this endpoint takes " + allowed);
  reply.fields.emplace_back("allow", allowed);
  return reply;
}

AdminReply refusal_reply(const AdminRefusal& refusal) {
  AdminReply reply = error_reply(refusal.status, refusal.message);
  if (refusal.status == 401) reply.fields.emplace_back("www-authenticate", "Bearer");
  return reply;
}

/// True if the answer of /readyz is to have a line for each pool.
bool is_verbose(std::string_view query) {
  return query == "verbose" || query.starts_with("verbose=");
}

/// Probes and scrapes may come by any name, unless `admin.hosts` narrows that; the API and the page
/// may not.
std::optional<AdminRefusal> check_access(const AdminRequest& request, const AdminConfig& config,
                                         AdminEndpoint endpoint, bool changes) {
  const std::string_view path = request.path();
  if (path.starts_with("/api/") || path.starts_with("/ui")) {
    if (auto refusal = check_origin(request, config.hosts)) return refusal;
  } else if (!config.hosts.empty() && !is_known_host(request.host, config.hosts, true)) {
    return AdminRefusal{403, "this Host is not in admin.hosts"};
  }
  const bool reveals_nothing = endpoint == AdminEndpoint::page || path == "/healthz" ||
                               (path == "/readyz" && !is_verbose(request.query()));
  if (reveals_nothing) return std::nullopt;
  return changes ? authorize_change(request, config) : authorize_read(request, config);
}

/// Why requests should go elsewhere; empty: ready.
std::string not_ready_reason(const RuntimeStatus& status, Instant now) {
  if (status.draining) return "draining";
  if (!status.ready) return "starting";
  const ReadyzRule rule = status.config->admin.readyz;
  if (rule == ReadyzRule::ignore_pools) return {};
  constexpr std::size_t max_named = 3;
  std::vector<std::string> unavailable;  // "chat: all backends are drained"
  std::size_t available = 0;
  for (const PoolSet::PoolEntry& pool : status.pool_set->pools()) {
    const PoolState& state = *pool.state;
    // A pool without servers takes requests where these have the first one started.
    if (state.available(now) > 0 || state.starts_from_zero()) {
      ++available;
    } else if (unavailable.size() < max_named) {
      unavailable.push_back(state.config().name + ": " + why_unavailable(state.backends(), now));
    }
  }
  if (rule == ReadyzRule::all_pools && !unavailable.empty()) {
    return fmt::format("not every pool has a backend that is up; {}", fmt::join(unavailable, "; "));
  }
  // Without pools every route responds by itself.
  if (available > 0 || unavailable.empty()) return {};
  return fmt::format("no pool has a backend that is up; {}", fmt::join(unavailable, "; "));
}

}  // namespace

AdminApi::AdminApi(IoContextPtr io, const RuntimeAccess& runtime)
    : io_(io),
      runtime_(runtime),
      actions_(io, runtime, events_),
      metrics_cache_(runtime),
      live_feed_(io, [this] { return live_state(); }),
      state_timer_(io->get_executor()),
      sample_timer_(io->get_executor()) {
  update_events(RuntimeView(runtime));
}

Awaitable<void> AdminApi::watch_states() {
  while (!stopped_) {  // a timer that has expired already is not cancelled
    ErrorCode ignored;
    state_timer_.expires_after(state_update_interval);
    co_await state_timer_.async_wait(or_error(ignored));
    update_events(RuntimeView(runtime_));
  }
}

Awaitable<void> AdminApi::take_samples() {
  while (!stopped_) {
    const auto time = std::chrono::system_clock::now();
    const RuntimeView view(runtime_);
    samples_.sample(view, time);
    tenant_usage_.sample(view);
    ErrorCode ignored;
    sample_timer_.expires_after(std::chrono::ceil<std::chrono::seconds>(time) - time);
    co_await sample_timer_.async_wait(or_error(ignored));
  }
}

void AdminApi::stop() {
  stopped_ = true;
  state_timer_.cancel();
  sample_timer_.cancel();
  live_feed_.stop();
}

void AdminApi::update_events(const RuntimeView& view) {
  events_.update(view, std::chrono::system_clock::now());
}

Awaitable<AdminReply> AdminApi::handle(const AdminRequest& request) {
  ChangeRecord record(runtime_.audit_log, request, runtime_.status->snapshot()->config);
  AdminReply reply = co_await answer(request);
  record.answered(reply.status);
  co_return reply;
}

Awaitable<AdminReply> AdminApi::answer(const AdminRequest& request) {
  auto endpoint = find_endpoint(request.path());
  auto backend_call = parse_backend_call(request);
  if (backend_call) endpoint = AdminEndpoint::backend_action;
  auto page = page_reply(request);
  if (page) endpoint = AdminEndpoint::page;
  if (endpoint == AdminEndpoint::log_levels && request.method == "POST")
    endpoint = AdminEndpoint::set_log_levels;
  const bool post = is_post(endpoint);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool right_method = post ? request.method == "POST" : reads;

  const auto status = runtime_.status->snapshot();
  const auto refusal = check_access(request, status->config->admin, endpoint, post && right_method);
  if (refusal) co_return refusal_reply(*refusal);
  if (endpoint == AdminEndpoint::none) co_return error_reply(404, no_such_endpoint);
  if (!right_method) co_return method_not_allowed(endpoint);

  switch (endpoint) {
    case AdminEndpoint::page: co_return std::move(*page);
    case AdminEndpoint::healthz: {
      AdminReply reply = co_await healthz();
      co_return reply;
    }
    case AdminEndpoint::backend_action: {
      AdminReply reply = co_await actions_.apply(std::move(*backend_call), request);
      co_return reply;
    }
    case AdminEndpoint::check: {
      const bool authorized = carries_token(request, status->config->admin.token_file);
      AdminReply reply = co_await actions_.check(request, authorized);
      co_return reply;
    }
    case AdminEndpoint::sessions: {
      AdminReply reply = co_await sessions_reply(io_, runtime_, sessions_cache_, request);
      co_return reply;
    }
    case AdminEndpoint::purge: {
      AdminReply reply = co_await actions_.purge_answers(request);
      co_return reply;
    }
    case AdminEndpoint::restart_canary: co_return actions_.restart_canary(request);
    case AdminEndpoint::set_log_levels: co_return set_log_levels(request.body);
    case AdminEndpoint::upgrade: {
      AdminReply reply = co_await actions_.upgrade();
      co_return reply;
    }
    case AdminEndpoint::reload: {
      AdminReply reply = co_await actions_.reload();
      co_return reply;
    }
    default: co_return read(endpoint, request);
  }
}

/// Answers what needs no other loop.
AdminReply AdminApi::read(AdminEndpoint endpoint, const AdminRequest& request) {
  const RuntimeView view(runtime_);
  switch (endpoint) {
    case AdminEndpoint::readyz: return readyz(request.query());
    case AdminEndpoint::metrics: return metrics(request);
    case AdminEndpoint::status: return json_reply(200, json_text(status_document(view)));
    case AdminEndpoint::pools: return json_reply(200, json_text(pools_document(view)));
    case AdminEndpoint::backends:
      update_events(view);
      return json_reply(200, json_text(backends_document(view, events_.states())));
    case AdminEndpoint::recent_requests:
      return json_reply(200, json_text(recent_requests_document(*runtime_.metrics_registry)));
    case AdminEndpoint::decisions:
      return decisions(percent_decoded(request.path().substr(decisions_prefix.size())));
    case AdminEndpoint::live: return {.content_type = "text/event-stream", .live = true};
    case AdminEndpoint::snapshot: return snapshot(request);
    case AdminEndpoint::tenants: return json_reply(200, json_text(tenant_usage_.document(view)));
    case AdminEndpoint::scaling: return json_reply(200, json_text(scaling_document(view)));
    case AdminEndpoint::canaries: return json_reply(200, json_text(canaries_document(view)));
    case AdminEndpoint::events: return json_reply(200, json_text(events_.document()));
    case AdminEndpoint::log_levels: return log_levels();
    case AdminEndpoint::history: return history(request);
    case AdminEndpoint::access: return access(request);
    case AdminEndpoint::explain: return explain(request);
    case AdminEndpoint::config: return config(*view.status, request);
    case AdminEndpoint::plain_page:
      update_events(view);
      return plain_page_reply(status_document(view), backends_document(view, events_.states()));
    default: return index_reply(view.status->version);
  }
}

AdminReply AdminApi::metrics(const AdminRequest& request) {
  const MetricsFormat format = preferred_metrics_format(request.field("accept").value_or(""));
  AdminReply reply = metrics_cache_.page(format).reply_to(request, content_type_of(format));
  reply.fields.emplace_back("vary", "accept");
  return reply;
}

/// All loops have work posted at the same time, so that their delays do not add up.
Awaitable<AdminReply> AdminApi::healthz() {
  const Instant deadline = Clock::now() + max_loop_silence;
  std::vector<Loop*> loops = runtime_.loops;
  loops.push_back(runtime_.control_loop);
  std::vector<LoopCall<Done>> calls;
  for (Loop* const loop : loops) calls.emplace_back(io_, *loop, [] { return Done{}; });
  for (LoopCall<Done>& call : calls) {
    const auto answer = co_await call.result(deadline);
    if (!answer) co_return text_reply(503, "an event loop is blocked\n");
  }
  co_return text_reply(200, "ok\n");
}

AdminReply AdminApi::readyz(std::string_view query) const {
  const auto status = runtime_.status->snapshot();
  const Instant now = Clock::now();
  const std::string reason = not_ready_reason(*status, now);
  std::string text = (reason.empty() ? "ready" : reason) + "\n";
  if (is_verbose(query)) {
    for (const PoolSet::PoolEntry& pool : status->pool_set->pools()) {
      text += fmt::format("pool {}: {} of {} backends up\n", pool.state->config().name,
                          pool.state->available(now), pool.state->backends().size());
    }
  }
  return text_reply(reason.empty() ? 200 : 503, std::move(text));
}

AdminReply AdminApi::decisions(std::string_view request_id) const {
  const auto document = explain_request(RuntimeView(runtime_), request_id);
  if (document) return json_reply(200, json_text(*document));
  if (!is_valid_request_id(request_id)) {
    return error_reply(404,
                       "no request has this id: at most 128 letters, digits, '-', '_' and '.'; one "
                       "that came with another id has the one in its answer's x-request-id");
  }
  return error_reply(
      404,
      "no request with this id is remembered: only the last that failed, the last of pools with "
      "`inspect`, and those whose decision is kept (`explain_one_in`, x-evenkeel-explain)");
}

AdminReply AdminApi::explain(const AdminRequest& request) const {
  const auto parameter = [&](std::string_view name, std::string_view otherwise) {
    return request.parameter(name).value_or(std::string(otherwise));
  };
  const HypotheticalRequest hypothetical{.method = parameter("method", "POST"),
                                         .host = parameter("host", "localhost"),
                                         .path = parameter("path", "/v1/chat/completions"),
                                         .model = parameter("model", "")};
  if (!hypothetical.path.starts_with('/')) return error_reply(422, "`path` begins with /");
  return json_reply(200, json_text(explain_hypothetical(RuntimeView(runtime_), hypothetical)));
}

AdminReply AdminApi::history(const AdminRequest& request) {
  auto* const document = samples_.document(request.parameter("metric").value_or("in_flight"));
  if (document == nullptr) return error_reply(404, "no such metric");
  return document->reply_to(request, "application/json");
}

/// Rendered once for each configuration.
AdminReply AdminApi::config(const RuntimeStatus& status, const AdminRequest& request) {
  if (shown_config_ != status.config) {
    config_text_ = CompressibleText(json_text(config_document(status)) + "\n");
    shown_config_ = status.config;
  }
  return config_text_.reply_to(request, "application/json");
}

AdminReply AdminApi::access(const AdminRequest& request) const {
  const auto refusal = authorize_change(request, runtime_.status->snapshot()->config->admin);
  JsonValue document;
  document.add("changes", !refusal);
  document.add("reason", refusal ? JsonValue(refusal->message) : JsonValue());
  return json_reply(200, json_text(document));
}

/// Rendered once a second, however many clients poll.
AdminReply AdminApi::snapshot(const AdminRequest& request) {
  const auto render = [this] { return CompressibleText(json_text(live_state()) + "\n"); };
  return snapshot_.get(render, [](Duration) { return max_snapshot_age; })
      .reply_to(request, "application/json");
}

JsonValue AdminApi::live_state() {
  const RuntimeView view(runtime_);
  update_events(view);
  JsonValue overview = samples_.overview();
  overview.add("events_total", events_.total());
  JsonValue state;
  state.add("status", status_document(view));
  state.add("pools", pools_document(view));
  state.add("backends", backends_document(view, events_.states()));
  state.add("overview", std::move(overview));
  return state;
}

}  // namespace evenkeel
