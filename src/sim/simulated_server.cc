#include "sim/simulated_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/json/writer.h"
#include "sim/dcgm.h"
#include "sim/http_response.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t max_echoed_bytes = 4 << 20;

/// The samples of a page that a query's `name[]` parameters name; all of it where there is none.
std::string select_samples(std::string page, std::string_view query) {
  constexpr std::string_view parameter = "name%5B%5D=";
  std::vector<std::string_view> names;
  for (std::size_t at = 0; (at = query.find(parameter, at)) != query.npos;) {
    at += parameter.size();
    names.push_back(query.substr(at, query.find('&', at) - at));
  }
  if (names.empty()) return page;
  std::string selected;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t end = page.find('\n', at) + 1;
    const std::string_view line = std::string_view(page).substr(at, end - at);
    if (std::ranges::find(names, line.substr(0, line.find_first_of("{ "))) != names.end()) {
      selected += line;
    }
    at = end;
  }
  return selected;
}

}  // namespace

Response respond_control(Result<std::string> page) {
  if (page) return respond_json(200, std::move(*page));
  return respond_json(page.error().fault == Fault::no_route ? 404 : 400,
                      error_object(page.error().detail));
}

/// A connection; its own handler, so that a request is known to be on it.
class SimulatedServer::Connection final : public Handler, public FrontendCallbacks {
 public:
  Connection(SimulatedServer& owner, int connected_fd) : server(owner), fd(connected_fd) {}

  std::shared_ptr<Handler> plan() override {
    ++busy;
    return {this, [](Connection* connection) { --connection->busy; }};
  }
  Task<Result<Response>> handle(Request& request) override { return server.handle(*this, request); }
  void refused(const Refusal&) override {}
  bool draining() const override { return !server.listener_.has_value(); }
  IdleList& idle_connections(ClientNumber) override { return server.idle_; }
  void closed(const ListenerConfig&, ClientNumber) override {}

  SimulatedServer& server;
  int fd;
  Socket* socket = nullptr;  // null: it has ended
  std::uint32_t busy = 0;    // requests in flight
  bool controls = false;     // its last request was for /sim/v1
  std::list<Connection>::iterator place;
  Task<void> task;
};

// ---- Connections -------------------------------------------------------------------------------

SimulatedServer::SimulatedServer(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                                 const SimulatedEngine& engine, int fd)
    : loop_(loop),
      options_(options),
      engine_(engine),
      endpoint_(Listener::local_endpoint(fd)),
      model_(loop, options_, preset, engine),
      api_(engine.make(model_)) {
  frontend_.name = options_.name;
  frontend_.timeouts.idle = engine.idle_timeout;
  frontend_.limits.header_bytes = 64 * 1024;
  frontend_.limits.header_fields = 256;
  frontend_.limits.uri_bytes = 32 * 1024;
  frontend_.limits.body_bytes = 512u << 20;
  frontend_.timeouts.body = std::chrono::hours(1);  // gRPC streams may pause
  frontend_.timeouts.write = std::chrono::hours(1);

  port_reservation_ = OwnedFd(socket(endpoint_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reservation = port_reservation_.get();
  const int on = 1;
  setsockopt(reservation, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(reservation, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  // Keeps the port while the server refuses: without it, another process could take it.
  static_cast<void>(bind(reservation, endpoint_.address(), endpoint_.size));

  listener_.emplace(loop_, fd,
                    [this](int accepted, const Endpoint& peer) { accept(accepted, peer); });
}

SimulatedServer::~SimulatedServer() { connections_.clear(); }

void SimulatedServer::accept(int fd, const Endpoint& peer) {
  Connection& connection = connections_.emplace_back(*this, fd);
  connection.place = std::prev(connections_.end());
  auto socket = std::make_unique<Socket>(loop_, fd);
  connection.socket = socket.get();
  connection.task = serve(connection, std::move(socket), peer);
}

Task<void> SimulatedServer::serve(Connection& connection, std::unique_ptr<Socket> socket,
                                  Endpoint peer) {
  co_await serve_http(std::move(socket), peer, frontend_, connection);
  connection.socket = nullptr;
  ended_.push_back(&connection);
  loop_.wake_soon(reap_);
}

void SimulatedServer::reap() {
  for (Connection* connection : ended_) connections_.erase(connection->place);
  ended_.clear();
}

void SimulatedServer::open_listener() {
  if (listener_) return;
  auto fd = Listener::bind(endpoint_);
  if (!fd) return;  // another process has taken the port: stay closed
  listener_.emplace(loop_, *fd,
                    [this](int accepted, const Endpoint& peer) { accept(accepted, peer); });
}

void SimulatedServer::close_listener() {
  listener_.reset();
  drop_idle_connections();
}

void SimulatedServer::drop_idle_connections() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    if (here->socket != nullptr && here->busy == 0) connections_.erase(here);
  }
}

void SimulatedServer::reset_connections() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    if (here->socket == nullptr || (here->busy > 0 && here->controls)) continue;
    if (!here->controls) here->socket->reset();
    connections_.erase(here);
  }
}

// ---- Faults ------------------------------------------------------------------------------------

std::string SimulatedServer::description() const {
  return fmt::format(
      R"({{"name":{},"address":"{}","engine":"{}","preset":"{}","model":{},"speed":{}}})",
      json_string(options_.name), endpoint_.text(), engine_.name, model_.preset().name,
      json_string(model_.name()), options_.speed);
}

std::string SimulatedServer::state() const {
  return fmt::format(R"({{"name":{},"engine":"{}",{}}})", json_string(options_.name), engine_.name,
                     state_members(model_.state()));
}

Result<std::string> SimulatedServer::control_page(std::string_view path, bool changes,
                                                  std::string_view body) {
  if (path == "/sim/v1/servers" && !changes) return description();
  if (path == "/sim/v1/report" && !changes) return report();
  if (path != "/sim/v1/state")
    return Error{.fault = Fault::no_route, .detail = "no such page of sim control"};
  if (changes) {
    auto next = read_state(model_.state(), body);
    if (!next) return std::move(next.error());
    const SimFault before = model_.state().fault;
    model_.set_state(*next);
    apply_fault(before);
  }
  return state();
}

void SimulatedServer::apply_fault(SimFault before) {
  const SimState& state = model_.state();
  if (state.fault == SimFault::stale_metrics && before != state.fault) {
    stale_metrics_ = api_->metrics_page(model_.snapshot());
    stale_dcgm_ = render_dcgm(model_.snapshot());
  }
  model_.runner().wake_after_tokens(0, nullptr);
  if (state.fault == SimFault::die) {
    if (state.die_after_tokens == 0) {
      loop_.wake_soon(die_);
    } else {
      model_.runner().wake_after_tokens(state.die_after_tokens, &die_);
    }
  }
  const bool refuses = state.fault == SimFault::refuse ||
                       (model_.loading() && engine_.refuses_connections_while_loading);
  if (refuses) {
    close_listener();
  } else if (state.fault != SimFault::die) {
    open_listener();
  }
  loop_.wake_soon(unfreeze_);
}

void SimulatedServer::die() {
  if (model_.state().fault != SimFault::die) return;
  listener_.reset();
  model_.restart([this] { reset_connections(); });
}

std::string SimulatedServer::report() {
  const SimTotals t = model_.totals();
  const SimAborts& aborts = model_.aborts();
  const StepEngine& engine = model_.runner().engine();
  const auto& lateness = model_.runner().lateness();
  const double hit_ratio = t.prompt_tokens == 0 ? 0
                                                : static_cast<double>(t.cached_tokens) /
                                                      static_cast<double>(t.prompt_tokens);
  const double mean_abort =
      aborts.count == 0 ? 0 : aborts.sum_seconds / static_cast<double>(aborts.count);
  return fmt::format(
      R"({{"name":{},"requests":{},"running":{},"waiting":{},"completed":{},"failed":{},"aborted":{},)"
      R"("abort_delay_seconds":{{"last":{:.6f},"max":{:.6f},"mean":{:.6f},"last_at_unix":{:.3f}}},)"
      R"("tokens":{{"prompt":{},"cached":{},"generated":{}}},"kv_cache_ratio":{},)"
      R"("prefix":{{"query_tokens":{},"hit_tokens":{},"hit_ratio":{}}},"preemptions":{},"adapter_loads":{},"steps":{},)"
      R"("gpu_utilization_ratio":{:.4f},"connections":{},)"
      R"("lateness":{{"late_steps":{},"max_seconds":{:.6f},"dropped_seconds":{:.6f}}}}})",
      json_string(options_.name), t.requests, engine.running(), engine.waiting(),
      model_.completed_requests(), t.failed, aborts.count, aborts.last_seconds, aborts.max_seconds,
      mean_abort, aborts.last_unix, t.prompt_tokens, t.cached_tokens, t.generated_tokens,
      engine.kv_cache_ratio(), t.prompt_tokens, t.cached_tokens, hit_ratio, t.preemptions,
      t.adapter_loads, t.steps, model_.runner().gpu().utilization_ratio, connections_.size(),
      lateness.steps, seconds_of(lateness.max), seconds_of(lateness.dropped));
}

// ---- Requests ----------------------------------------------------------------------------------

Task<Result<Response>> SimulatedServer::handle(Connection& connection, Request& request) {
  connection.controls = path_of(request.path).starts_with("/sim/v1/");
  if (connection.controls) return control(request);
  if (model_.state().fault == SimFault::hang) return handle_when_unfrozen(connection, request);
  return route(request, connection.fd);
}

/// `co_await HungRequest(list);` waits until the fault `hang` is over.
class SimulatedServer::HungRequest : private CoroutineWaiter {
 public:
  explicit HungRequest(WaiterList& list) : list_(list) {}
  HungRequest(const HungRequest&) = delete;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    coroutine_ = waiter;
    list_.add(*this);
  }
  void await_resume() const {}

 private:
  WaiterList& list_;
};

void SimulatedServer::unfreeze() {
  if (model_.state().fault != SimFault::hang) hung_.wake_all();
}

Task<Result<Response>> SimulatedServer::handle_when_unfrozen(Connection& connection,
                                                             Request& request) {
  co_await HungRequest(hung_);
  auto response = co_await route(request, connection.fd);
  co_return response;
}

Task<Result<Response>> SimulatedServer::route(Request& request, int client_fd) {
  if (is_grpc(request)) return api_->handle(request, client_fd);
  const std::string_view path = path_of(request.path);
  if (path == "/echo" || path.starts_with("/echo/")) return echo(request);
  if (auto page = metrics(request)) return Result<Response>(std::move(*page));
  return api_->handle(request, client_fd);
}

std::optional<Response> SimulatedServer::metrics(const Request& request) {
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  const std::string_view path = path_of(request.path);
  if (path == "/metrics") return respond(200, engine_.metrics_type, metrics_page());
  if (path == "/metrics/" && engine_.mounts_metrics_app) {
    const std::string_view query = request.path.substr(path.size());
    return respond(200, engine_.metrics_type, select_samples(metrics_page(), query));
  }
  if (path == "/dcgm/metrics") {
    return respond(200, "text/plain; version=0.0.4; charset=utf-8", dcgm_page());
  }
  return std::nullopt;
}

std::string SimulatedServer::metrics_page() {
  if (model_.state().fault == SimFault::stale_metrics) return stale_metrics_;
  return api_->metrics_page(model_.snapshot());
}

std::string SimulatedServer::dcgm_page() {
  if (model_.state().fault == SimFault::stale_metrics) return stale_dcgm_;
  return render_dcgm(model_.snapshot());
}

Task<Result<Response>> SimulatedServer::control(Request& request) {
  const std::string path(path_of(request.path));
  const bool changes = request.method == "PUT" || request.method == "POST";
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  co_return respond_control(control_page(path, changes, *body));
}

Task<Result<Response>> SimulatedServer::echo(Request& request) {
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  std::string text = fmt::format(R"({{"method":{},"target":{},"authority":{},"fields":[)",
                                 json_string(request.method), json_string(request.path),
                                 json_string(request.authority));
  bool first = true;
  for (const Field& field : request.fields) {
    if (!std::exchange(first, false)) text += ',';
    text += fmt::format("[{},{}]", json_string(field.name()), json_string(field.value()));
  }
  text += fmt::format(R"(],"body_bytes":{},"body_hash":"{:016x}","body_base64":)", body->size(),
                      hash_of(*body));
  text += body->size() <= max_echoed_bytes ? '"' + base64(*body) + '"' : "null";
  text += '}';
  co_return respond_json(200, std::move(text));
}

}  // namespace evenkeel
