#include "sim/control_server.h"

#include <utility>

#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

/// A query that runs on a server's loop and returns its result to ours.
struct CrossLoopQuery {
  explicit CrossLoopQuery(Loop& home) : done(home) {}
  Signal done;
  Result<std::string> result = std::string();
};

Response respond(int status, std::string body) {
  Response response;
  response.status = status;
  response.fields.add("content-type", "application/json");
  response.body = make_body(std::move(body));
  return response;
}

/// The value of `server=` in a target's query; empty: none.
std::string server_in(std::string_view target) {
  const std::size_t at = target.find("?server=");
  return at == std::string_view::npos ? std::string() : std::string(target.substr(at + 8));
}

}  // namespace

ControlServer::ControlServer(Loop& loop, std::vector<SimulatedServer*> servers, int fd)
    : loop_(loop), servers_(std::move(servers)) {
  frontend_.name = "sim-control";
  listener_.emplace(loop_, fd, [this](int accepted, const Endpoint& peer) {
    loop_.spawn(serve_http1(std::make_unique<Socket>(loop_, accepted), peer, frontend_, *this));
  });
}

Task<Result<Response>> ControlServer::handle(Request& request) {
  const std::string target(request.path);
  const std::string_view path = std::string_view(target).substr(0, target.find('?'));
  const bool puts = request.method == "PUT" || request.method == "POST";
  std::string body;
  while (request.body != nullptr) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::move(chunk.error());
    body += chunk->bytes;
    if (chunk->last) break;
  }

  Query query;
  if (path == "/sim/v1/servers" && !puts) {
    query = [](SimulatedServer& server) { return server.description(); };
  } else if (path == "/sim/v1/report" && !puts) {
    query = [](SimulatedServer& server) { return server.report(); };
  } else if (path == "/sim/v1/state" && puts) {
    query = [body](SimulatedServer& server) -> Result<std::string> {
      auto changed = server.change_state(body);
      if (!changed) return std::move(changed.error());
      return server.state();
    };
  } else if (path == "/sim/v1/state") {
    query = [](SimulatedServer& server) { return server.state(); };
  } else {
    co_return respond(404, R"({"error":"no such page of sim control"})");
  }
  auto response = co_await query_servers(std::move(query), server_in(target));
  co_return response;
}

/// Queries the server of that name; with no name all servers, as `{"servers": [...]}`.
Task<Result<Response>> ControlServer::query_servers(Query query, std::string name) {
  std::string results;
  for (SimulatedServer* server : servers_) {
    if (!name.empty() && server->name() != name) continue;
    auto pending = std::make_shared<CrossLoopQuery>(loop_);
    Loop& home = loop_;
    server->loop().post([pending, query, server, &home] {
      pending->result = query(*server);
      home.post([pending] { pending->done.raise(); });
    });
    co_await pending->done.wait();
    if (!pending->result) {
      co_return respond(400, R"({"error":)" + json_string(pending->result.error().detail) + "}");
    }
    if (!results.empty()) results += ',';
    results += *pending->result;
  }
  if (results.empty()) co_return respond(404, R"({"error":"no server of that name"})");
  if (!name.empty()) co_return respond(200, std::move(results));
  co_return respond(200, R"({"servers":[)" + results + "]}");
}

}  // namespace evenkeel
