#include "proxy/ollama_lists.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/status.h"
#include "evenkeel/inference/engine.h"
#include "proxy/pool_assignment.h"

namespace evenkeel {
namespace {

/// The longest wait for the list of one pool.
constexpr Duration max_wait = std::chrono::seconds(2);

/// The rest of a longer list is not read.
constexpr std::size_t max_list_bytes = std::size_t{4} << 20;

/// The text of a body; empty if that ended early, or is too long.
Task<std::string> text_of(BodyPtr body) {
  std::string text;
  while (body != nullptr) {
    auto chunk = co_await body->read();
    if (!chunk || text.size() + chunk->bytes.size() > max_list_bytes) co_return std::string();
    text += chunk->bytes;
    if (chunk->last) break;
  }
  co_return text;
}

Error no_list(const char* why, Fault fault = Fault::backend_protocol) {
  return {.fault = fault, .side = Side::backend, .detail = why};
}

/// What the client sent. A pool that is given up in the middle of an attempt leaves in a request
/// what it changed for its backend, whose key no other pool's may get.
class ClientsOwn {
 public:
  explicit ClientsOwn(const Request& request) : path_(request.path) {
    for (const Field& field : request.fields) fields_.add(field);
  }

  void restore(Request& request) const {
    request.path = path_;
    request.fields.remove_if([](const Field&) { return true; });  // keeps what they refer to
    for (const Field& field : fields_) request.fields.add(field);
  }

 private:
  std::string_view path_;
  Fields fields_;
};

/// True if the pool takes the model, under this name or a shorter one.
bool takes(const ModelReach::Pool& pool, std::string_view model) {
  return pool.takes(model) || pool.takes(without_implied_tag(model));
}

}  // namespace

bool OllamaLists::is_for(const Request& request) {
  if (request.method != "GET" && request.method != "HEAD") return false;
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  return path && (*path == "/api/tags" || *path == "/api/ps");
}

bool OllamaLists::answers(const Request& request, std::optional<std::size_t> route) const {
  const ModelListRule rule = route ? config_.routes[*route].model_list : ModelListRule::automatic;
  if (rule == ModelListRule::forward) return false;
  if (route && !reach_.takes_requests(*route, ModelReach::Api::ollama)) return false;
  return reached_by(request).list.size() > 1;
}

ModelReach::Pools OllamaLists::reached_by(const Request& request) const {
  return reach_.pools_for(ModelReach::Api::ollama, request.authority, &request.fields);
}

Task<OllamaLists::List> OllamaLists::ask(const PlanPool& pool, Request& request) const {
  assign_pool(request.info.identity, pool.config.name, pool.index, metrics_);
  request.info.outcome.attempts = AttemptList();  // it has room for those at one pool
  auto answer = co_await pool.first->handle(request);
  if (!answer || answer->status != 200) co_return List{.failure = std::move(answer)};
  std::string text = co_await text_of(std::move(answer->body));
  auto entries = read_ollama_list(std::move(text));
  if (!entries) co_return List{.failure = no_list("the answer is no list of models")};
  co_return List{.entries = std::move(entries)};
}

Task<Result<Response>> OllamaLists::handle(Request& request) {
  const ModelReach::Pools reached = reached_by(request);
  const std::string_view method = std::exchange(request.method, "GET");
  request.fields.remove("accept-encoding");  // the lists are read
  const ClientsOwn clients_own(request);
  std::string list;
  std::set<std::string, std::less<>> seen;
  bool any = false;
  Result<Response> failure = Error{.fault = Fault::no_backend};
  for (const ModelReach::Pool& each : reached.list) {
    auto asked = ask(pools_.list()[each.number], request);
    co_await UntilDoneOrDeadline(asked, loop_, loop_.now() + max_wait);
    List listed;
    if (asked.ready()) {
      listed = asked.take();
    } else {
      asked.drop();
      clients_own.restore(request);
      listed.failure = no_list("no list of models within 2 s", Fault::first_byte_timeout);
    }
    if (!listed.entries) {
      failure = std::move(listed.failure);
      continue;
    }
    any = true;
    for (const OllamaEntry& entry : *listed.entries) {
      if (!takes(each, entry.model) || !may_use(request.info.identity.tenant, entry.model) ||
          !seen.insert(entry.model).second)
        continue;
      list.append(list.empty() ? "" : ",").append(entry.json);
    }
  }
  request.method = method;
  if (!any) co_return failure;
  Response response;
  response.fields.add("content-type", "application/json");
  allow_origin(request, response);
  response.body = make_body(R"({"models":[)" + list + "]}");
  co_return response;
}

}  // namespace evenkeel
