#include "sim/sim_control.h"

#include <utility>

#include "evenkeel/inference/json.h"

namespace evenkeel {
namespace {

/// A question on its way to another thread, and its answer on the way back.
struct Errand {
  explicit Errand(Loop& home) : answered(home) {}
  Signal answered;
  Result<std::string> answer = std::string();
};

Response respond(int status, std::string body) {
  Response response;
  response.status = status;
  response.fields.add("content-type", "application/json");
  response.body = make_body(std::move(body));
  return response;
}

/// The value of `server=` in a target's query; empty when there is none.
std::string server_in(std::string_view target) {
  const std::size_t at = target.find("?server=");
  return at == std::string_view::npos ? std::string() : std::string(target.substr(at + 8));
}

}  // namespace

SimControl::SimControl(Loop& loop, std::vector<SimulatedServer*> servers, int fd)
    : loop_(loop), servers_(std::move(servers)) {
  frontend_.listener = "sim-control";
  listener_.emplace(loop_, fd, [this](int accepted, const Endpoint& peer) {
    loop_.spawn(serve_http1(std::make_unique<Socket>(loop_, accepted), peer, frontend_, *this));
  });
}

Task<Result<Response>> SimControl::handle(Request& request) {
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

  Question question;
  if (path == "/sim/v1/servers" && !puts) {
    question = [](SimulatedServer& server) { return server.description(); };
  } else if (path == "/sim/v1/report" && !puts) {
    question = [](SimulatedServer& server) { return server.report(); };
  } else if (path == "/sim/v1/state" && puts) {
    question = [body](SimulatedServer& server) -> Result<std::string> {
      auto changed = server.change_state(body);
      if (!changed) return std::move(changed.error());
      return server.state();
    };
  } else if (path == "/sim/v1/state") {
    question = [](SimulatedServer& server) { return server.state(); };
  } else {
    co_return respond(404, R"({"error":"no such page of sim control"})");
  }
  auto response = co_await ask_all(std::move(question), server_in(target));
  co_return response;
}

/// Asks one server by name, or all of them: then the answer is `{"servers": [...]}`.
Task<Result<Response>> SimControl::ask_all(Question question, std::string name) {
  std::string answers;
  for (SimulatedServer* server : servers_) {
    if (!name.empty() && server->name() != name) continue;
    auto errand = std::make_shared<Errand>(loop_);
    Loop& home = loop_;
    server->loop().post([errand, question, server, &home] {
      errand->answer = question(*server);
      home.post([errand] { errand->answered.raise(); });
    });
    auto wake = co_await errand->answered.wait();
    static_cast<void>(wake);
    if (!errand->answer) {
      co_return respond(400, R"({"error":)" + json_string(errand->answer.error().detail) + "}");
    }
    if (!answers.empty()) answers += ',';
    answers += *errand->answer;
  }
  if (answers.empty()) co_return respond(404, R"({"error":"no server of that name"})");
  if (!name.empty()) co_return respond(200, std::move(answers));
  co_return respond(200, R"({"servers":[)" + answers + "]}");
}

}  // namespace evenkeel
