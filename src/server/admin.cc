#include "server/admin.h"

#include <string>
#include <string_view>

#include "evenkeel/base/json.h"
#include "server/admin_documents.h"
#include "server/admin_guard.h"
#include "server/knock.h"
#include "server/overview_source.h"

namespace evenkeel {
namespace {

constexpr Duration longest_silence = std::chrono::seconds(5);  // of a loop that is alive
constexpr std::string_view json_type = "application/json";
constexpr std::string_view text_type = "text/plain; charset=utf-8";

Response answer(int status, std::string_view type, std::string body) {
  Response response{.status = status};
  response.fields.add("content-type", type);
  response.fields.add("cache-control", "no-store");
  response.body = make_body(std::move(body));
  return response;
}

Response json_answer(std::string document, int status = 200) {
  return answer(status, json_type, std::move(document) + "\n");
}

Response failure(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().field("error", message).end_object();
  return json_answer(json.take(), status);
}

}  // namespace

Task<Result<Response>> AdminHandler::handle(Request& request) {
  const auto question = request.path.find('?');
  const std::string_view path = request.path.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : request.path.substr(question + 1);
  const bool api = path.starts_with("/api/");

  if (request.method != "GET" && request.method != "HEAD") {
    Response refused = failure(405, "this endpoint answers GET and HEAD");
    refused.fields.add("allow", "GET, HEAD");
    return Result<Response>(std::move(refused));
  }
  if (api && foreign(request)) {
    return Result<Response>(
        failure(403, "ask by address or as localhost: a foreign Host or Origin is refused"));
  }
  if (path == "/healthz") return healthz();
  if (path == "/readyz") return Result<Response>(readyz(query));
  if (path == "/metrics") return Result<Response>(metrics());
  if (path == "/api/v1/status") return Result<Response>(json_answer(status_document(overview_)));
  if (path == "/api/v1/pools") return Result<Response>(json_answer(pools_document(overview_)));
  if (path == "/api/v1/backends")
    return Result<Response>(json_answer(backends_document(overview_)));
  return Result<Response>(
      failure(404,
              "no such endpoint; there are /healthz /readyz /metrics /api/v1/status /api/v1/pools "
              "/api/v1/backends"));
}

Task<Result<Response>> AdminHandler::healthz() {
  std::vector<Loop*> loops;
  for (const auto& worker : *overview_.workers) loops.push_back(&worker->loop());
  const bool alive = co_await all_answer(loop_, std::move(loops), loop_.now() + longest_silence);
  if (!alive) co_return answer(503, text_type, "an event loop does not turn\n");
  co_return answer(200, text_type, "ok\n");
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
