#include "sim/simulated_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/inference/json.h"
#include "evenkeel/inference/kserve_request.h"
#include "sim/tokens.h"

namespace evenkeel {
namespace {

constexpr std::int64_t created_at = 1'700'000'000;  // fixed: the same request has the same answer
constexpr std::uint64_t most_echoed_bytes = 4 << 20;
constexpr std::size_t embedding_size = 64;

constexpr std::array<std::string_view, 8> fault_names = {
    "none", "refuse", "hang", "slow", "error", "die", "loading", "stale-metrics"};

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

Response respond(int status, std::string_view content_type, std::string body) {
  Response response;
  response.status = status;
  if (!body.empty()) response.fields.add("content-type", content_type);
  response.fields.add("server", "evenkeel-sim");
  response.body = make_body(std::move(body));
  return response;
}

Response respond_json(int status, std::string body) {
  return respond(status, "application/json", std::move(body));
}

/// All of a request's body; an error when its client leaves in the middle of it.
Task<Result<std::string>> read_all(Request& request) {
  std::string body;
  if (request.body == nullptr) co_return body;
  if (const auto length = request.body->length()) body.reserve(*length);
  while (true) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::move(chunk.error());
    body += chunk->bytes;
    if (chunk->last) co_return body;
  }
}

/// How much the model writes unless it is told: log-normal, about 180 tokens.
std::uint32_t natural_length(std::uint64_t seed) {
  Rng rng(seed);
  const double u = std::max(rng.unit(), 1e-12);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * rng.unit());
  return static_cast<std::uint32_t>(
      std::clamp(std::exp(std::log(180.0) + 0.7 * normal), 1.0, 4000.0));
}

std::vector<float> embedding_of(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> vector(embedding_size);
  double squares = 0;
  for (float& x : vector) {
    x = static_cast<float>(rng.unit() - 0.5);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) / std::sqrt(squares));
  return vector;
}

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

/// "/v2/models/NAME[/versions/V]/WHAT".
struct KservePath {
  std::string_view model;
  std::string_view what;
};

std::optional<KservePath> kserve_path(std::string_view path) {
  constexpr std::string_view prefix = "/v2/models/";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  // A model's name may hold slashes; the verb is the last segment.
  const std::size_t slash = path.rfind('/');
  KservePath parts{.model = path.substr(0, slash)};
  if (slash != std::string_view::npos) parts.what = path.substr(slash + 1);
  const std::size_t version = parts.model.rfind("/versions/");
  if (version != std::string_view::npos) parts.model = parts.model.substr(0, version);
  return parts;
}

}  // namespace

/// A connection: its own host and handler, so that it is known whose request is whose.
class SimulatedServer::Connection final : public Handler, public Host {
 public:
  Connection(SimulatedServer& owner, int connected_fd)
      : server(owner), changed(owner.loop_), fd(connected_fd) {}

  std::shared_ptr<Handler> plan() override {
    busy = true;
    return {this, [](Connection* connection) { connection->busy = false; }};
  }
  Task<Result<Response>> handle(Request& request) override { return server.handle(*this, request); }
  void refused(const Refusal&) override {}
  bool draining() const override { return !server.listener_.has_value(); }
  WaiterList& idle_connections() override { return server.idle_; }
  void closed(const FrontendOptions&) override {}

  SimulatedServer& server;
  Signal changed;  // the state did, for a request that hangs
  int fd;
  Socket* socket = nullptr;  // null: it has ended
  bool busy = false;
  bool controls = false;  // its last request was for sim control
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
      runner_(loop, preset.engine, kind, options.speed) {
  // uvicorn and llama.cpp's server close idle connections after 5 s.
  const bool impatient =
      kind == EngineKind::vllm || kind == EngineKind::sglang || kind == EngineKind::llamacpp;
  frontend_.listener = options.name;
  frontend_.idle_timeout = std::chrono::seconds(impatient ? 5 : 75);
  frontend_.header_bytes = 64 * 1024;
  frontend_.header_fields = 256;
  frontend_.uri_bytes = 32 * 1024;
  frontend_.body_bytes = 512u << 20;
  frontend_.write_timeout = std::chrono::hours(1);

  reservation_ = socket(endpoint_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(reservation_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(reservation_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  bind(reservation_, endpoint_.address(), endpoint_.size);

  listener_.emplace(loop_, fd,
                    [this](int accepted, const Endpoint& peer) { accept(accepted, peer); });
}

SimulatedServer::~SimulatedServer() {
  dying_ = true;
  connections_.clear();
  if (reservation_ >= 0) close(reservation_);
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
  co_await serve_http1(std::move(socket), peer, frontend_, connection);
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
    if (here->socket != nullptr && !here->busy) connections_.erase(here);
  }
}

void SimulatedServer::reset_connections() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    if (here->socket == nullptr || (here->busy && here->controls)) continue;
    if (!here->controls) here->socket->reset();
    connections_.erase(here);
  }
}

// ---- Faults ------------------------------------------------------------------------------------

std::string SimulatedServer::description() const {
  return fmt::format(
      R"({{"name":{},"address":"{}","engine":"{}","preset":"{}","model":{},"speed":{}}})",
      json_string(options_.name), endpoint_.text(), name_of(kind_), preset_.name,
      json_string(model_), options_.speed);
}

std::string SimulatedServer::state() const {
  return fmt::format(
      R"({{"name":{},"engine":"{}","fault":"{}","slow_factor":{},"error_status":{},"die_after_tokens":{}}})",
      json_string(options_.name), name_of(kind_),
      fault_names[static_cast<std::size_t>(state_.fault)], state_.slow_factor, state_.error_status,
      state_.die_after_tokens);
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
    } else {
      return wrong(fmt::format(
          "'{}' is no part of the state; known: fault, slow_factor, error_status, die_after_tokens",
          key));
    }
  }
  const SimFault before = std::exchange(state_, next).fault;
  take_effect(before);
  return Done{};
}

void SimulatedServer::take_effect(SimFault before) {
  const SimFault fault = state_.fault;
  runner_.set_slow_factor(fault == SimFault::slow ? state_.slow_factor : 1);
  runner_.freeze(fault == SimFault::hang);
  runner_.wake_after_tokens(0, nullptr);

  if (fault == SimFault::stale_metrics && before != fault) {
    stale_metrics_ = exposition_now(false);
    stale_dcgm_ = exposition_now(true);
  }
  if (fault == SimFault::die) {
    if (state_.die_after_tokens == 0) {
      loop_.wake_soon(die_);
    } else {
      runner_.wake_after_tokens(state_.die_after_tokens, &die_);
    }
  }
  const bool refuses = fault == SimFault::refuse || (loading() && refuses_while_loading());
  if (refuses) {
    close_listener();
  } else if (fault != SimFault::die) {
    open_listener();
  }
  for (Connection& connection : connections_) connection.changed.raise();
}

void SimulatedServer::die() {
  if (state_.fault != SimFault::die) return;
  past_ = totals();
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
  const Statistics& s = runner_.statistics();
  return {.requests = past_.requests + s.requests,
          .failed = past_.failed + s.failed,
          .prompt_tokens = past_.prompt_tokens + s.prompt_tokens,
          .cached_tokens = past_.cached_tokens + s.cached_tokens,
          .generated_tokens = past_.generated_tokens + s.generated_tokens,
          .preemptions = past_.preemptions + s.preemptions,
          .steps = past_.steps + s.steps};
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
  if (state_.fault == SimFault::hang) return handle_when_thawed(connection, request);
  return route(request, connection.fd);
}

Task<Result<Response>> SimulatedServer::handle_when_thawed(Connection& connection,
                                                           Request& request) {
  while (state_.fault == SimFault::hang) {
    auto wake = co_await connection.changed.wait();
    static_cast<void>(wake);
  }
  auto response = co_await route(request, connection.fd);
  co_return response;
}

Task<Result<Response>> SimulatedServer::route(Request& request, int fd) {
  const std::string_view path = path_of(request.path);
  if (path == "/echo" || path.starts_with("/echo/")) return echo(request);
  const bool slow_health = kind_ == EngineKind::sglang && !loading() && request.method == "GET" &&
                           (path == "/health" || path == "/health_generate");
  if (slow_health) return sglang_health();
  if (auto answer = answer_health(request.method, path))
    return Result<Response>(std::move(*answer));
  if (auto answer = answer_get(request.method, path)) return Result<Response>(std::move(*answer));
  if (request.method != "POST") {
    return Result<Response>(refuse({.status = 404, .message = "Not Found"}));
  }
  return infer(request, fd);
}

std::optional<Response> SimulatedServer::answer_health(std::string_view method,
                                                       std::string_view path) {
  const bool get = method == "GET";
  if (kind_ == EngineKind::triton) {
    const auto model = kserve_path(path);
    const bool model_ready = model && model->what == "ready";
    if (path != "/v2/health/live" && path != "/v2/health/ready" && !model_ready)
      return std::nullopt;
    if (!get) return respond(405, "text/plain", "");
    if (path == "/v2/health/live") return respond(200, "text/plain", "");
    if (loading() || (model_ready && model->model != model_)) {
      return model_ready ? refuse_kserve(400, "Model version not ready")
                         : respond(400, "text/plain", "");
    }
    return respond(200, "text/plain", "");
  }
  const bool ping = path == "/ping" && (kind_ == EngineKind::vllm || kind_ == EngineKind::tgi);
  const bool second_path = path == "/v1/health" && kind_ == EngineKind::llamacpp;
  if (path != "/health" && !ping && !second_path) return std::nullopt;
  if (!get && !(ping && method == "POST") && kind_ == EngineKind::vllm) {
    return respond_json(405, R"({"detail":"Method Not Allowed"})");
  }
  switch (kind_) {
    case EngineKind::tgi:
      if (loading())
        return respond_json(503, R"({"error":"unhealthy","error_type":"healthcheck"})");
      break;
    case EngineKind::llamacpp:
      if (loading()) return refuse({.status = 503, .message = "Loading model"});
      return respond_json(200, R"({"status":"ok"})");
    default:
      if (loading()) return respond(503, "text/plain", "");
  }
  return respond(200, "text/plain", "");
}

Task<Result<Response>> SimulatedServer::sglang_health() {
  // It generates a token and looks for it once a second.
  co_await loop_.sleep_for(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / options_.speed)));
  co_return respond(200, "text/plain", "");
}

std::optional<Response> SimulatedServer::answer_get(std::string_view method,
                                                    std::string_view path) {
  if (method != "GET" && method != "HEAD") return std::nullopt;
  if (path == "/metrics") return metrics(false);
  if (path == "/dcgm/metrics") return metrics(true);
  if (path == "/v1/models") {
    return respond_json(200, models_body(model_, created_at, runner_.max_tokens()));
  }
  const EngineSpec& spec = preset_.engine;
  const Gauges gauges = runner_.gauges();
  const std::string model = json_string(model_);
  switch (kind_) {
    case EngineKind::vllm:
      if (path == "/version") return respond_json(200, R"({"version":"0.32.0+sim"})");
      if (path == "/load") {
        return respond_json(
            200, fmt::format(R"({{"server_load":{}}})", gauges.running + gauges.waiting));
      }
      if (path == "/is_sleeping") return respond_json(200, R"({"is_sleeping":false})");
      break;
    case EngineKind::sglang: {
      if (path == "/model_info" || path == "/get_model_info") {
        return respond_json(200,
                            fmt::format(R"({{"model_path":{0},"is_generation":true}})", model));
      }
      if (path == "/server_info" || path == "/get_server_info") {
        return respond_json(
            200, fmt::format(R"({{"model_path":{},"served_model_name":{},"kv_events":null}})",
                             model, model));
      }
      if (path != "/v1/loads") break;
      const Engine& engine = runner_.engine();  // fresher than the metrics
      const double capacity = static_cast<double>(spec.kv_blocks - 1) * spec.block_tokens;
      return respond_json(
          200,
          fmt::format(
              R"({{"timestamp":{:.3f},"version":"0.5.23+sim","accelerator":{},"num_accelerators":{},)"
              R"("loads":[{{"dp_rank":0,"num_running_reqs":{},"num_waiting_reqs":{},"num_used_tokens":{:.0f},)"
              R"("max_total_num_tokens":{:.0f},"token_usage":{},"max_running_requests":{}}}]}})",
              unix_seconds(), json_string(preset_.gpu), preset_.gpus, engine.running(),
              engine.waiting(), engine.kv_cache_ratio() * capacity, capacity,
              engine.kv_cache_ratio(), spec.max_sequences));
    }
    case EngineKind::llamacpp:
      if (path == "/props") {
        return respond_json(
            200, fmt::format(R"({{"total_slots":{},"model_path":{},"is_sleeping":false}})",
                             spec.max_sequences, model));
      }
      if (path == "/models") {
        return respond_json(200, models_body(model_, created_at, runner_.max_tokens()));
      }
      break;
    case EngineKind::tgi:
      if (path == "/info") {
        return respond_json(
            200, fmt::format(R"({{"model_id":{},"max_total_tokens":{},"version":"3.3.6+sim"}})",
                             model, runner_.max_tokens()));
      }
      break;
    case EngineKind::triton: {
      if (path == "/v2") {
        return respond_json(
            200, R"({"name":"triton","version":"2.51.0+sim","extensions":["generate"]})");
      }
      const auto asked = kserve_path(path);
      const bool metadata = path.starts_with("/v2/models/") && path.substr(11) == model_;
      if (metadata || (asked && asked->what == "1" && asked->model == model_)) {
        return respond_json(
            200, fmt::format(R"({{"name":{},"versions":["1"],"platform":"sim"}})", model));
      }
      break;
    }
    case EngineKind::generic:
      break;
  }
  return std::nullopt;
}

Response SimulatedServer::metrics(bool dcgm) {
  const std::string_view type = kind_ == EngineKind::vllm && !dcgm
                                    ? "text/plain; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
  if (state_.fault == SimFault::stale_metrics) {
    return respond(200, type, dcgm ? stale_dcgm_ : stale_metrics_);
  }
  return respond(200, type, exposition_now(dcgm));
}

std::string SimulatedServer::exposition_now(bool dcgm) {
  const EngineReadings readings{.kind = kind_,
                                .preset = preset_,
                                .model = model_,
                                .gpu_seed = hash_of(options_.name) + options_.seed,
                                .started_unix = runner_.started_unix(),
                                .gauges = runner_.gauges(),
                                .statistics = runner_.statistics(),
                                .gpu = runner_.gpu()};
  return dcgm ? dcgm_exposition(readings) : exposition(readings);
}

Task<Result<Response>> SimulatedServer::control(Request& request) {
  const std::string_view path = path_of(request.path);
  if (path == "/sim/v1/report" && request.method == "GET") co_return respond_json(200, report());
  if (path != "/sim/v1/state")
    co_return respond_json(404, kserve_error_body("no such page of sim control"));
  if (request.method == "PUT" || request.method == "POST") {
    auto body = co_await read_all(request);
    if (!body) co_return std::move(body.error());
    auto changed = change_state(std::move(*body));
    if (!changed) co_return respond_json(400, kserve_error_body(changed.error().detail));
  }
  co_return respond_json(200, state());
}

Task<Result<Response>> SimulatedServer::echo(Request& request) {
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  std::string said = fmt::format(R"({{"method":{},"target":{},"authority":{},"fields":[)",
                                 json_string(request.method), json_string(request.path),
                                 json_string(request.authority));
  bool first = true;
  for (const Field& field : request.fields) {
    if (!std::exchange(first, false)) said += ',';
    said += fmt::format("[{},{}]", json_string(field.name()), json_string(field.value()));
  }
  said += fmt::format(R"(],"body_bytes":{},"body_hash":"{:016x}","body_base64":)", body->size(),
                      hash_of(*body));
  said += body->size() <= most_echoed_bytes ? '"' + base64(*body) + '"' : "null";
  said += '}';
  co_return respond_json(200, std::move(said));
}

Task<Result<Response>> SimulatedServer::infer(Request& request, int fd) {
  const std::string path(path_of(request.path));
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  if (state_.fault == SimFault::error) {
    ++runner_.statistics().failed;
    co_return path.starts_with("/v2/")
        ? refuse_kserve(state_.error_status, "simulated failure")
        : refuse({.status = state_.error_status, .message = "simulated failure"});
  }
  if (loading()) {
    co_return path.starts_with("/v2/")
        ? refuse_kserve(
              404, fmt::format("Request for unknown model: '{}' has no available versions", model_))
        : refuse({.status = 503, .message = "Loading model"});
  }
  auto response = co_await dispatch(path, std::move(*body), fd);
  co_return response;
}

Task<Result<Response>> SimulatedServer::dispatch(std::string_view path, std::string body, int fd) {
  if (path == "/v1/chat/completions")
    return complete(OpenAiApi::chat_completions, std::move(body), fd);
  if (path == "/v1/completions") return complete(OpenAiApi::completions, std::move(body), fd);
  if (path == "/v1/embeddings") return embed(std::move(body), fd);
  if (path == "/tokenize") return Result<Response>(tokenize(std::move(body)));
  const auto kserve = kserve_path(path);
  if (kserve && (kind_ == EngineKind::triton || kind_ == EngineKind::generic)) {
    if (kserve->model != model_) {
      return Result<Response>(refuse_kserve(
          404, fmt::format("Request for unknown model: '{}' is not found", kserve->model)));
    }
    if (kserve->what == "infer") return kserve_infer(std::move(body), fd);
    if (kserve->what == "generate") return kserve_generate(std::move(body), false, fd);
    if (kserve->what == "generate_stream") return kserve_generate(std::move(body), true, fd);
  }
  return Result<Response>(refuse({.status = 404, .message = "Not Found"}));
}

Response SimulatedServer::refuse(const Refused& refused) {
  return respond_json(refused.status, error_body(kind_, refused));
}

Response SimulatedServer::refuse_kserve(int status, std::string_view message) {
  return respond_json(status, kserve_error_body(message));
}

std::optional<Refused> SimulatedServer::check_model(const OpenAiRequest& request) const {
  if (request.model.empty() || request.model == model_) return std::nullopt;
  return Refused{.status = 404,
                 .message = fmt::format("The model `{}` does not exist.", request.model),
                 .param = "model"};
}

AnswerHead SimulatedServer::head_of(OpenAiApi api, std::string_view body) const {
  // Of the body alone, not of x-request-id: whatever a proxy adds to a request, its answer has the
  // same bytes.
  const std::uint64_t high = hash_of(body) ^ options_.seed;
  const char* prefix = api == OpenAiApi::chat_completions ? "chatcmpl"
                       : api == OpenAiApi::completions    ? "cmpl"
                                                          : "embd";
  return {.api = api,
          .id = fmt::format("{}-{:016x}{:016x}", prefix, mix(high), mix(high + 1)),
          .created = created_at,
          .model = model_};
}

/// Plans the choices of one prompt; or says why not.
std::optional<Refused> SimulatedServer::plan(const OpenAiRequest& request, const Prompt& prompt,
                                             const AnswerHead& head,
                                             std::vector<ChoicePlan>& plans) {
  std::vector<TokenId> tokens = tokens_of(prompt, head.api == OpenAiApi::chat_completions);
  const auto prompt_tokens = static_cast<std::uint32_t>(std::min<std::size_t>(tokens.size(), ~0u));
  const std::uint32_t context = runner_.max_tokens();
  const std::uint64_t asked = request.max_tokens.value_or(0);
  if (prompt_tokens >= context || prompt_tokens + asked > context) {
    return Refused{
        .message = fmt::format(
            "This model's maximum context length is {} tokens. However, you requested {} output "
            "tokens and your prompt contains {} input tokens, for a total of {} tokens. Please "
            "reduce the length of the input prompt or the number of requested output tokens.",
            context, asked, prompt_tokens, prompt_tokens + asked),
        .param = "input_tokens"};
  }
  const std::uint32_t limit = request.max_tokens.value_or(context - prompt_tokens);
  const std::uint32_t block_tokens = preset_.engine.block_tokens;
  const auto prompt_hash =
      hash_blocks(tokens, static_cast<std::uint32_t>(tokens.size()), request.cache_salt)[0];
  const std::uint64_t seed = mix(prompt_hash ^ hash_of(request.seed)) + options_.seed;

  for (std::uint32_t i = 0; i < request.n; ++i) {
    ChoicePlan plan{.prompt_tokens = prompt_tokens,
                    .max_tokens = request.max_tokens.value_or(0),
                    .word_seed = mix(seed + i)};
    const std::uint32_t natural = std::max(natural_length(plan.word_seed), request.min_tokens);
    plan.ends_by_itself = !request.ignore_eos && natural <= limit;
    plan.output_tokens = plan.ends_by_itself ? natural : limit;
    if (request.stream) plan.shape = event_shape(head, static_cast<std::uint32_t>(plans.size()));

    std::vector<TokenId> all = tokens;
    std::string written;
    for (std::uint32_t k = 0; k < plan.output_tokens; ++k) {
      if (k > 0) written += ' ';
      written += word_of(plan.word_seed, k);
    }
    append_tokens(written, all);
    plan.block_hashes = hash_blocks(all, block_tokens, request.cache_salt);
    plans.push_back(std::move(plan));
  }
  return std::nullopt;
}

std::unique_ptr<Answer> SimulatedServer::start(std::vector<ChoicePlan> plans, bool streams,
                                               int fd) {
  ++runner_.statistics().requests;
  return std::make_unique<Answer>(loop_, runner_, *this, fd, std::move(plans), streams);
}

Task<Result<Response>> SimulatedServer::complete(OpenAiApi api, std::string body, int fd) {
  const AnswerHead head = head_of(api, body);
  auto request = parse_openai_request(api, body);
  if (!request) co_return refuse({.message = request.error().detail});
  auto refused = check_model(*request);
  std::vector<ChoicePlan> plans;
  for (const Prompt& prompt : request->prompts) {
    if (!refused) refused = plan(*request, prompt, head, plans);
  }
  if (refused) co_return refuse(*refused);

  auto answer = start(std::move(plans), request->stream, fd);
  while (!answer->finished() && answer->pending().empty()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  if (!request->stream) {
    const Usage usage = answer->usage(options_.prompt_tokens_details, request->n);
    co_return respond_json(200, completion_body(head, answer->texts(), usage));
  }
  // The head waits for the first token, as vLLM's does: until then the request may be asked again.
  Response response;
  response.fields.add("content-type", "text/event-stream; charset=utf-8");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::make_unique<StreamBody>(
      std::move(answer), StreamEnd{.usage = request->include_usage,
                                   .cached_tokens = options_.prompt_tokens_details,
                                   .choices_per_prompt = request->n,
                                   .head = head});
  co_return response;
}

Task<Result<Response>> SimulatedServer::embed(std::string body, int fd) {
  const AnswerHead head = head_of(OpenAiApi::embeddings, body);
  auto request = parse_openai_request(OpenAiApi::embeddings, body);
  if (!request) co_return refuse({.message = request.error().detail});
  request->n = 1;
  request->stream = false;
  request->max_tokens = 1;
  request->ignore_eos = true;
  auto refused = check_model(*request);
  std::vector<ChoicePlan> plans;
  for (const Prompt& prompt : request->prompts) {
    if (!refused) refused = plan(*request, prompt, head, plans);
  }
  if (refused) co_return refuse(*refused);
  std::vector<std::vector<float>> vectors;
  for (const ChoicePlan& each : plans) vectors.push_back(embedding_of(each.word_seed));

  auto answer = start(std::move(plans), false, fd);
  while (!answer->finished()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  Usage usage = answer->usage(options_.prompt_tokens_details, 1);
  usage.completion_tokens = 0;
  co_return respond_json(
      200, embeddings_body(head, vectors, request->encoding_format == "base64", usage));
}

Response SimulatedServer::tokenize(std::string body) {
  const bool chat = body.find("\"messages\"") != std::string::npos;
  const OpenAiApi api = chat ? OpenAiApi::chat_completions : OpenAiApi::completions;
  auto request = parse_openai_request(api, body);
  if (!request) return refuse({.message = request.error().detail});
  const auto tokens = tokens_of(request->prompts[0], chat);
  std::string ids;
  for (const TokenId token : tokens)
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", mix(token) % 128'000);
  return respond_json(
      200, fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":null}})",
                       tokens.size(), runner_.max_tokens(), ids));
}

Task<Result<Response>> SimulatedServer::kserve_infer(std::string body, int fd) {
  auto request = parse_kserve_infer(body);
  if (!request) co_return refuse_kserve(400, request.error().detail);
  std::uint64_t elements = 0;
  for (const KserveTensor& input : request->inputs) elements += input.elements;
  const std::uint64_t most = runner_.max_tokens() - 1;
  std::vector<ChoicePlan> plans(1);
  plans[0].prompt_tokens = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(elements, 1, most));

  auto answer = start(std::move(plans), false, fd);
  while (!answer->finished()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  // An identity model: INPUT0 comes back as OUTPUT0.
  std::string outputs;
  for (const KserveTensor& input : request->inputs) {
    std::string name = input.name;
    if (const auto at = name.find("INPUT"); at != std::string::npos) name.replace(at, 5, "OUTPUT");
    outputs += fmt::format(R"({}{{"name":{},"datatype":{},"shape":{},"data":{}}})",
                           outputs.empty() ? "" : ",", json_string(name),
                           json_string(input.datatype), input.shape, input.data);
  }
  const std::string id =
      request->id.empty() ? "" : fmt::format(R"("id":{},)", json_string(request->id));
  co_return respond_json(
      200, fmt::format(R"({{{}"model_name":{},"model_version":"1","outputs":[{}]}})", id,
                       json_string(model_), outputs));
}

Task<Result<Response>> SimulatedServer::kserve_generate(std::string body, bool streams, int fd) {
  auto parsed = parse_kserve_generate(body);
  if (!parsed) co_return refuse_kserve(400, parsed.error().detail);
  OpenAiRequest request{.max_tokens = parsed->max_tokens};
  const Prompt prompt{{.text = parsed->text_input}};
  std::vector<ChoicePlan> plans;
  const auto refused = plan(request, prompt, {.api = OpenAiApi::completions}, plans);
  if (refused) co_return refuse_kserve(refused->status, refused->message);
  plans[0].shape = kserve_event_shape(model_);

  auto answer = start(std::move(plans), streams, fd);
  while (!answer->finished() && answer->pending().empty()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  if (!streams) {
    co_return respond_json(
        200, fmt::format(R"({{"model_name":{},"model_version":"1","text_output":{}}})",
                         json_string(model_), json_string(answer->texts()[0].text)));
  }
  Response response;
  response.fields.add("content-type", "text/event-stream; charset=utf-8");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::make_unique<StreamBody>(std::move(answer), StreamEnd{.done_mark = false});
  co_return response;
}

}  // namespace evenkeel
