#include "sim/control_server.h"

#include <utility>

#include "sim/http_response.h"

namespace evenkeel {
namespace {

/// A query that runs on a server's loop and returns its result to ours.
struct CrossLoopQuery {
  explicit CrossLoopQuery(Loop& home) : done(home) {}
  Signal done;
  Result<std::string> result = std::string();
};

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
  const std::string_view path = path_of(target);
  const bool changes = request.method == "PUT" || request.method == "POST";
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  auto page = co_await page_of(std::string(path), changes, std::move(*body), server_in(target));
  co_return respond_control(std::move(page));
}

/// The page of the server of that name; with no name those of all servers, as `{"servers": [...]}`.
Task<Result<std::string>> ControlServer::page_of(std::string path, bool changes, std::string body,
                                                 std::string name) {
  std::string pages;
  for (SimulatedServer* server : servers_) {
    if (!name.empty() && server->name() != name) continue;
    auto pending = std::make_shared<CrossLoopQuery>(loop_);
    Loop& home = loop_;
    server->loop().post([=, &home] {
      pending->result = server->control_page(path, changes, body);
      home.post([pending] { pending->done.raise(); });
    });
    co_await pending->done.wait();
    if (!pending->result) co_return std::move(pending->result.error());
    if (!pages.empty()) pages += ',';
    pages += *pending->result;
  }
  if (pages.empty()) co_return Error{.fault = Fault::no_route, .detail = "no server of that name"};
  co_return name.empty() ? R"({"servers":[)" + pages + "]}" : pages;
}

}  // namespace evenkeel
