#include "sim/simulated_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/inference/json.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 9> fault_names = {
    "none", "refuse", "hang", "slow", "error", "die", "loading", "stale-metrics", "vram"};

/// Of GPU memory in use: beyond it, an allocation fails sooner or later.
constexpr double memory_limit = 0.95;

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// How long ago the kernel last heard an acknowledgement from the peer: its close carries one.
double seconds_since_heard(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_last_ack_recv * 1e-3;
}

}  // namespace

/// A connection: its own host and handler, so that it is known whose request is whose.
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
  WaiterList& idle_connections() override { return server.idle_; }
  void closed(const FrontendOptions&) override {}

  SimulatedServer& server;
  int fd;
  Socket* socket = nullptr;  // null: it has ended
  std::uint32_t busy = 0;    // requests that it has
  bool controls = false;     // its last request was for sim control
  std::list<Connection>::iterator place;
  Task<void> task;
};

// ---- Connections -------------------------------------------------------------------------------

SimulatedServer::SimulatedServer(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                                 EngineKind kind, int fd)
    : loop_(loop),
      options_(options),
      preset_(preset),
      kind_(kind),
      model_(options.model.empty() ? preset.model : options.model),
      endpoint_(Listener::local_endpoint(fd)),
      runner_(loop, preset.engine, kind, options.speed),
      batches_(loop, options.batching, options.speed, runner_.statistics()) {
  // uvicorn and llama.cpp's server close idle connections after 5 s.
  const bool impatient =
      kind == EngineKind::vllm || kind == EngineKind::sglang || kind == EngineKind::llamacpp;
  frontend_.listener = options.name;
  frontend_.idle_timeout = std::chrono::seconds(impatient ? 5 : 75);
  frontend_.header_bytes = 64 * 1024;
  frontend_.header_fields = 256;
  frontend_.uri_bytes = 32 * 1024;
  frontend_.body_bytes = 512u << 20;
  frontend_.body_timeout = std::chrono::hours(1);  // streams of gRPC may pause
  frontend_.write_timeout = std::chrono::hours(1);

  port_reservation_fd_ = socket(endpoint_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(port_reservation_fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(port_reservation_fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  // Keeps the port while the server refuses; without it, another process might take it meanwhile.
  static_cast<void>(bind(port_reservation_fd_, endpoint_.address(), endpoint_.size));

  listener_.emplace(loop_, fd,
                    [this](int accepted, const Endpoint& peer) { accept(accepted, peer); });
}

SimulatedServer::~SimulatedServer() {
  dying_ = true;
  connections_.clear();
  if (port_reservation_fd_ >= 0) close(port_reservation_fd_);
}

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
  if (!fd) return;  // somebody shares our port by SO_REUSEPORT without letting us: stay closed
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
      json_string(options_.name), endpoint_.text(), to_string(kind_), preset_.name,
      json_string(model_), options_.speed);
}

std::string SimulatedServer::state() const {
  return fmt::format(
      R"({{"name":{},"engine":"{}","fault":"{}","slow_factor":{},"error_status":{},"die_after_tokens":{},)"
      R"("gpu_memory_ratio":{},"out_of_memory_after_seconds":{}}})",
      json_string(options_.name), to_string(kind_),
      fault_names[static_cast<std::size_t>(state_.fault)], state_.slow_factor, state_.error_status,
      state_.die_after_tokens, state_.gpu_memory_ratio, state_.out_of_memory_after_seconds);
}

Result<Done> SimulatedServer::change_state(std::string json) {
  auto scalars = parse_json_scalars(json);
  if (!scalars) return std::move(scalars.error());
  const auto wrong = [](std::string detail) {
    return Error{.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
  };

  SimState next = state_;
  for (const auto& [key, value] : *scalars) {
    const double* number = std::get_if<double>(&value);
    if (key == "fault") {
      const auto* name = std::get_if<std::string>(&value);
      const auto found = name == nullptr ? fault_names.end()
                                         : std::find(fault_names.begin(), fault_names.end(), *name);
      if (found == fault_names.end()) {
        return wrong(fmt::format("fault should be one of {}", fmt::join(fault_names, ", ")));
      }
      next.fault = static_cast<SimFault>(found - fault_names.begin());
    } else if (key == "slow_factor") {
      if (number == nullptr || !(*number > 0 && *number <= 1e6))
        return wrong("slow_factor should be above 0");
      next.slow_factor = *number;
    } else if (key == "error_status") {
      if (number == nullptr || !(*number >= 400 && *number <= 599)) {
        return wrong("error_status should be 400 to 599");
      }
      next.error_status = static_cast<int>(*number);
    } else if (key == "die_after_tokens") {
      if (number == nullptr || !(*number >= 0 && *number <= 1e15)) {
        return wrong("die_after_tokens should be 0 or more");
      }
      next.die_after_tokens = static_cast<std::uint64_t>(*number);
    } else if (key == "gpu_memory_ratio") {
      if (number == nullptr || !(*number >= 0 && *number <= 1)) {
        return wrong("gpu_memory_ratio should be 0 to 1");
      }
      next.gpu_memory_ratio = *number;
    } else if (key == "out_of_memory_after_seconds") {
      if (number == nullptr || !(*number >= 0 && *number <= 1e6)) {
        return wrong("out_of_memory_after_seconds should be 0 or more");
      }
      next.out_of_memory_after_seconds = *number;
    } else {
      return wrong(
          fmt::format("'{}' is no part of the state; known: fault, slow_factor, "
                      "error_status, die_after_tokens, gpu_memory_ratio, "
                      "out_of_memory_after_seconds",
                      key));
    }
  }
  const SimFault before = std::exchange(state_, next).fault;
  apply_fault(before);
  return Done{};
}

void SimulatedServer::apply_fault(SimFault before) {
  const SimFault fault = state_.fault;
  const double slow_factor = fault == SimFault::slow ? state_.slow_factor : 1;
  runner_.set_slow_factor(slow_factor);
  runner_.freeze(fault == SimFault::hang);
  batches_.set_slow_factor(slow_factor);
  batches_.freeze(fault == SimFault::hang);
  runner_.wake_after_tokens(0, nullptr);
  const bool full = fault == SimFault::vram && state_.gpu_memory_ratio > memory_limit;
  memory_full_since_ = full ? std::min(memory_full_since_, loop_.read_clock()) : never;

  if (fault == SimFault::stale_metrics && before != fault) {
    stale_metrics_ = render_metrics(false);
    stale_dcgm_ = render_metrics(true);
  }
  if (fault == SimFault::die) {
    if (state_.die_after_tokens == 0) {
      loop_.wake_soon(die_);
    } else {
      runner_.wake_after_tokens(state_.die_after_tokens, &die_);
    }
  }
  const bool refuses = fault == SimFault::error_response || (loading() && refuses_while_loading());
  if (refuses) {
    close_listener();
  } else if (fault != SimFault::die) {
    open_listener();
  }
  loop_.wake_soon(unfreeze_);
}

bool SimulatedServer::out_of_memory() const {
  return memory_full_since_ != never &&
         seconds_of(loop_.now() - memory_full_since_) >= state_.out_of_memory_after_seconds;
}

void SimulatedServer::die() {
  if (state_.fault != SimFault::die) return;
  previous_totals_ = totals();
  dying_ = true;
  listener_.reset();
  reset_connections();
  dying_ = false;
  runner_.restart();
}

void SimulatedServer::aborted(int fd) {
  if (dying_) return;
  const Instant seen = loop_.now();
  const double seconds = seconds_since_heard(fd) + seconds_of(loop_.read_clock() - seen);
  ++runner_.statistics().aborted;
  ++aborts_.count;
  aborts_.last_seconds = seconds;
  aborts_.longest_seconds = std::max(aborts_.longest_seconds, seconds);
  aborts_.sum_seconds += seconds;
  aborts_.last_unix = unix_seconds();
}

SimulatedServer::Totals SimulatedServer::totals() {
  const ServerStatistics& s = runner_.statistics();
  return {.requests = previous_totals_.requests + s.requests,
          .failed = previous_totals_.failed + s.failed,
          .prompt_tokens = previous_totals_.prompt_tokens + s.prompt_tokens,
          .cached_tokens = previous_totals_.cached_tokens + s.cached_tokens,
          .generated_tokens = previous_totals_.generated_tokens + s.generated_tokens,
          .preemptions = previous_totals_.preemptions + s.preemptions,
          .steps = previous_totals_.steps + s.steps};
}

std::string SimulatedServer::report() {
  const Totals t = totals();
  const Engine& engine = runner_.engine();
  const auto& lateness = runner_.lateness();
  const double hit_ratio = t.prompt_tokens == 0 ? 0
                                                : static_cast<double>(t.cached_tokens) /
                                                      static_cast<double>(t.prompt_tokens);
  const double mean_abort =
      aborts_.count == 0 ? 0 : aborts_.sum_seconds / static_cast<double>(aborts_.count);
  return fmt::format(
      R"({{"name":{},"requests":{},"running":{},"waiting":{},"completed":{},"failed":{},"aborted":{},)"
      R"("abort_delay_seconds":{{"last":{:.6f},"max":{:.6f},"mean":{:.6f},"last_at_unix":{:.3f}}},)"
      R"("tokens":{{"prompt":{},"cached":{},"generated":{}}},"kv_cache_ratio":{},)"
      R"("prefix":{{"query_tokens":{},"hit_tokens":{},"hit_ratio":{}}},"preemptions":{},"steps":{},)"
      R"("gpu_utilization_ratio":{:.4f},"connections":{},)"
      R"("lateness":{{"late_steps":{},"max_seconds":{:.6f},"dropped_seconds":{:.6f}}}}})",
      json_string(options_.name), t.requests, engine.running(), engine.waiting(), completed_,
      t.failed, aborts_.count, aborts_.last_seconds, aborts_.longest_seconds, mean_abort,
      aborts_.last_unix, t.prompt_tokens, t.cached_tokens, t.generated_tokens,
      engine.kv_cache_ratio(), t.prompt_tokens, t.cached_tokens, hit_ratio, t.preemptions, t.steps,
      runner_.gpu().utilization_ratio, connections_.size(), lateness.steps,
      seconds_of(lateness.longest), seconds_of(lateness.dropped));
}

// ---- Requests ----------------------------------------------------------------------------------

Task<Result<Response>> SimulatedServer::handle(Connection& connection, Request& request) {
  connection.controls = path_of(request.path).starts_with("/sim/v1/");
  if (connection.controls) return control(request);
  if (state_.fault == SimFault::hang) return handle_when_unfrozen(connection, request);
  return route(request, connection.fd);
}

/// Stands among those that hang until they are woken.
class SimulatedServer::HungRequest : private Waiter {
 public:
  explicit HungRequest(WaiterList& list) : Waiter(&HungRequest::resume), list_(list) {}
  HungRequest(const HungRequest&) = delete;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    list_.add(*this);
  }
  void await_resume() const {}

 private:
  static void resume(Waiter& self) { static_cast<HungRequest&>(self).waiter_.resume(); }
  WaiterList& list_;
  std::coroutine_handle<> waiter_;
};

void SimulatedServer::unfreeze() {
  if (state_.fault != SimFault::hang) hung_.wake_all();
}

Task<Result<Response>> SimulatedServer::handle_when_unfrozen(Connection& connection,
                                                             Request& request) {
  co_await HungRequest(hung_);
  auto response = co_await route(request, connection.fd);
  co_return response;
}

}  // namespace evenkeel
