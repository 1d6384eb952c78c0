#include "evenkeel/admin/admin_handler.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "admin/actions.h"
#include "admin/authorization.h"
#include "admin/documents.h"
#include "admin/runtime_collector.h"
#include "evenkeel/base/loop_liveness.h"

namespace evenkeel {
namespace {

constexpr Duration max_loop_silence = std::chrono::seconds(5);  // of a loop that is alive
constexpr Duration state_update_interval =
    std::chrono::milliseconds(250);  // between looks at states
constexpr std::string_view json_type = "application/json";
constexpr std::string_view text_type = "text/plain; charset=utf-8";

enum class AdminEndpoint {
  healthz,
  readyz,
  metrics,
  status,
  pools,
  backends,
  backend_action,
  reload
};

constexpr std::array<std::pair<std::string_view, AdminEndpoint>, 7> endpoints = {
    {{"/healthz", AdminEndpoint::healthz},
     {"/readyz", AdminEndpoint::readyz},
     {"/metrics", AdminEndpoint::metrics},
     {"/api/v1/status", AdminEndpoint::status},
     {"/api/v1/pools", AdminEndpoint::pools},
     {"/api/v1/backends", AdminEndpoint::backends},
     {"/api/v1/reload", AdminEndpoint::reload}}};

constexpr std::string_view no_such_endpoint =
    "no such endpoint; there are GET /healthz /readyz /metrics /api/v1/status /api/v1/pools "
    "/api/v1/backends, POST /api/v1/backends/{id}/drain /undrain /weight, POST /api/v1/reload";

/// What was asked, without the guard's say.
struct AdminCall {
  std::string_view path;
  std::string_view query;
  std::optional<AdminEndpoint> endpoint;
  std::optional<BackendCall> backend_call;  // with Asked::backend_action

  bool changes() const {
    return endpoint == AdminEndpoint::backend_action || endpoint == AdminEndpoint::reload;
  }
};

AdminCall parse_call(std::string_view target) {
  const auto question = target.find('?');
  AdminCall call{.path = target.substr(0, question)};
  if (question != std::string_view::npos) call.query = target.substr(question + 1);
  for (const auto& [path, endpoint] : endpoints) {
    if (path == call.path) call.endpoint = endpoint;
  }
  call.backend_call = parse_backend_call(call.path, call.query);
  if (call.backend_call) call.endpoint = AdminEndpoint::backend_action;
  return call;
}

Response make_response(int status, std::string_view type, std::string body) {
  Response response{.status = status};
  response.fields.add("content-type", type);
  response.fields.add("cache-control", "no-store");
  response.body = make_body(std::move(body));
  return response;
}

Response json(AdminResponse result) {
  return make_response(result.status, json_type, std::move(result.document) + "\n");
}

Response method_not_allowed(bool changes) {
  const std::string_view allowed = changes ? "POST" : "GET, HEAD";
  Response refused = json(admin_error(405, "this endpoint takes " + std::string(allowed)));
  refused.fields.add("allow", allowed);
  return refused;
}

Response refusal(const AdminRefusal& refused) {
  Response response = json(admin_error(refused.status, refused.message));
  if (refused.status == 401) response.fields.add("www-authenticate", "Bearer");
  return response;
}

}  // namespace

AdminHandler::AdminHandler(Loop& loop, const RuntimeAccess& runtime)
    : loop_(loop), runtime_(runtime), state_watcher_(watch_states()) {}

/// So that `since` is right whether anybody looks or not.
Task<void> AdminHandler::watch_states() {
  while (true) {
    update();
    co_await loop_.sleep_for(state_update_interval);
  }
}

void AdminHandler::update() {
  history_.update(runtime_.status->snapshot()->pool_set, Clock::now(),
                  std::chrono::system_clock::now());
}

Task<Result<Response>> AdminHandler::handle(Request& request) {
  AdminCall call = parse_call(request.path);
  if (call.path.starts_with("/api/")) {
    const auto refused = check_origin(request);
    if (refused) co_return refusal(*refused);
  }
  if (!call.endpoint) co_return json(admin_error(404, no_such_endpoint));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool right_method = call.changes() ? request.method == "POST" : reads;
  if (!right_method) co_return method_not_allowed(call.changes());
  if (call.changes()) {
    const auto refused =
        authorize_change(request, runtime_.status->snapshot()->config->admin.token_file);
    if (refused) co_return refusal(*refused);
  }

  switch (*call.endpoint) {
    case AdminEndpoint::healthz: {
      auto alive = co_await all_loops_responsive();
      co_return alive ? make_response(200, text_type, "ok\n")
                      : make_response(503, text_type, "an event loop does not turn\n");
    }
    case AdminEndpoint::readyz: co_return readyz(call.query);
    case AdminEndpoint::metrics: co_return metrics();
    case AdminEndpoint::status: co_return json({.document = status_document(runtime_)});
    case AdminEndpoint::pools: co_return json({.document = pools_document(runtime_)});
    case AdminEndpoint::backends:
      update();
      co_return json({.document = backends_document(runtime_, history_)});
    case AdminEndpoint::backend_action: {
      auto result =
          co_await apply_backend_action(runtime_, history_, std::move(*call.backend_call), request);
      co_return json(std::move(result));
    }
    case AdminEndpoint::reload: break;
  }
  auto result = co_await apply_reload(runtime_);
  co_return json(std::move(result));
}

Task<bool> AdminHandler::all_loops_responsive() {
  return all_responsive(loop_, runtime_.loops, loop_.now() + max_loop_silence);
}

Response AdminHandler::readyz(std::string_view query) const {
  const auto status = runtime_.status->snapshot();
  const bool ready = status->ready && !status->draining;
  std::string text = ready ? "ready\n" : status->draining ? "draining\n" : "starting\n";
  if (query == "verbose" || query.starts_with("verbose=")) {
    const Instant now = Clock::now();
    for (const PoolSet::PoolEntry& pool : status->pool_set->pools()) {
      text += "pool " + pool.state->spec().name + ": " +
              std::to_string(pool.state->available(now)) + " of " +
              std::to_string(pool.state->backends().size()) + " backends up\n";
    }
  }
  return make_response(ready ? 200 : 503, text_type, std::move(text));
}

Response AdminHandler::metrics() const {
  RuntimeCollector collector(runtime_);
  return make_response(
      200, metrics_content_type,
      render_metrics(*runtime_.metrics_registry, collector, runtime_.status->snapshot()->version));
}

}  // namespace evenkeel
