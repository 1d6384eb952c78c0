#include "server/admin.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "server/admin_actions.h"
#include "server/admin_documents.h"
#include "server/admin_guard.h"
#include "server/knock.h"
#include "server/overview_source.h"

namespace evenkeel {
namespace {

constexpr Duration longest_silence = std::chrono::seconds(5);  // of a loop that is alive
constexpr Duration glance = std::chrono::milliseconds(250);    // between looks at states
constexpr std::string_view json_type = "application/json";
constexpr std::string_view text_type = "text/plain; charset=utf-8";

enum class Asked { healthz, readyz, metrics, status, pools, backends, backend_action, reload };

constexpr std::array<std::pair<std::string_view, Asked>, 7> endpoints = {
    {{"/healthz", Asked::healthz},
     {"/readyz", Asked::readyz},
     {"/metrics", Asked::metrics},
     {"/api/v1/status", Asked::status},
     {"/api/v1/pools", Asked::pools},
     {"/api/v1/backends", Asked::backends},
     {"/api/v1/reload", Asked::reload}}};

constexpr std::string_view no_such_endpoint =
    "no such endpoint; there are GET /healthz /readyz /metrics /api/v1/status /api/v1/pools "
    "/api/v1/backends, POST /api/v1/backends/{id}/drain /undrain /weight, POST /api/v1/reload";

/// What was asked, without the guard's say.
struct Call {
  std::string_view path;
  std::string_view query;
  std::optional<Asked> endpoint;
  std::optional<BackendCall> on_backend;  // with Asked::backend_action

  bool changes() const { return endpoint == Asked::backend_action || endpoint == Asked::reload; }
};

Call understand(std::string_view target) {
  const auto question = target.find('?');
  Call call{.path = target.substr(0, question)};
  if (question != std::string_view::npos) call.query = target.substr(question + 1);
  for (const auto& [path, endpoint] : endpoints) {
    if (path == call.path) call.endpoint = endpoint;
  }
  call.on_backend = parse_backend_call(call.path, call.query);
  if (call.on_backend) call.endpoint = Asked::backend_action;
  return call;
}

Response answer(int status, std::string_view type, std::string body) {
  Response response{.status = status};
  response.fields.add("content-type", type);
  response.fields.add("cache-control", "no-store");
  response.body = make_body(std::move(body));
  return response;
}

Response json(AdminAnswer told) {
  return answer(told.status, json_type, std::move(told.document) + "\n");
}

Response wrong_method(bool changes) {
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

AdminHandler::AdminHandler(Loop& loop, const Overview& overview)
    : loop_(loop), overview_(overview), watching_(watch_states()) {}

/// So that `since` is right whether anybody looks or not.
Task<void> AdminHandler::watch_states() {
  while (true) {
    look();
    co_await loop_.sleep_for(glance);
  }
}

void AdminHandler::look() {
  history_.look(overview_.fleet, Clock::now(), std::chrono::system_clock::now());
}

Task<Result<Response>> AdminHandler::handle(Request& request) {
  Call call = understand(request.path);
  if (call.path.starts_with("/api/")) {
    const auto refused = refuse_foreign(request);
    if (refused) co_return refusal(*refused);
  }
  if (!call.endpoint) co_return json(admin_error(404, no_such_endpoint));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool right_method = call.changes() ? request.method == "POST" : reads;
  if (!right_method) co_return wrong_method(call.changes());
  if (call.changes()) {
    const auto refused = refuse_change(request, overview_.config->admin.token_file);
    if (refused) co_return refusal(*refused);
  }

  switch (*call.endpoint) {
    case Asked::healthz: {
      auto alive = co_await every_loop_turns();
      co_return alive ? answer(200, text_type, "ok\n")
                      : answer(503, text_type, "an event loop does not turn\n");
    }
    case Asked::readyz: co_return readyz(call.query);
    case Asked::metrics: co_return metrics();
    case Asked::status: co_return json({.document = status_document(overview_)});
    case Asked::pools: co_return json({.document = pools_document(overview_)});
    case Asked::backends:
      look();
      co_return json({.document = backends_document(overview_, history_)});
    case Asked::backend_action: {
      auto told =
          co_await act_on_backend(overview_, history_, std::move(*call.on_backend), request);
      co_return json(std::move(told));
    }
    case Asked::reload: break;
  }
  auto told = co_await act_reload(overview_);
  co_return json(std::move(told));
}

Task<bool> AdminHandler::every_loop_turns() {
  std::vector<Loop*> loops;
  for (const auto& worker : *overview_.workers) loops.push_back(&worker->loop());
  return all_answer(loop_, std::move(loops), loop_.now() + longest_silence);
}

Response AdminHandler::readyz(std::string_view query) const {
  const bool ready = overview_.ready && !overview_.draining;
  std::string text = ready ? "ready\n" : overview_.draining ? "draining\n" : "starting\n";
  if (query == "verbose" || query.starts_with("verbose=")) {
    const Instant now = Clock::now();
    for (const Fleet::Member& pool : overview_.fleet->pools()) {
      text += "pool " + pool.state->spec().name + ": " + std::to_string(pool.state->standing(now)) +
              " of " + std::to_string(pool.state->backends().size()) + " backends up\n";
    }
  }
  return answer(ready ? 200 : 503, text_type, std::move(text));
}

Response AdminHandler::metrics() const {
  OverviewSource source(overview_);
  return answer(200, metrics_content_type,
                render_metrics(*overview_.sheets, source, overview_.version));
}

}  // namespace evenkeel
