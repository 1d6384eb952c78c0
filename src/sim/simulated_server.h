// A server that behaves as an inference engine: its API, its manners, its faults.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"
#include "evenkeel/wire/frontend.h"
#include "sim/batch_runner.h"
#include "sim/completion.h"
#include "sim/engine_runner.h"
#include "sim/grpc_response.h"

namespace evenkeel {

/// What is wrong with a simulated server, on demand.
enum class SimFault : std::uint8_t {
  none,
  error_response,  ///< connections are refused; requests in flight end as usual
  hang,            ///< nothing is answered, streams stand still; all goes on when it is over
  slow,            ///< steps take `slow_factor` times as long
  error,           ///< inference is answered with `error_status`; health and metrics as usual
  die,             ///< after `die_after_tokens` more tokens every connection is reset, then refused
  loading,         ///< as the engine is while it loads: refused (vllm), 400 (triton), 503 (others)
  stale_metrics,   ///< /metrics stays what it was
  vram,            ///< GPU memory and KV cache are as full as `gpu_memory_ratio`; soon it shows
};

struct SimState {
  SimFault fault = SimFault::none;
  double slow_factor = 4;
  int error_status = 500;
  std::uint64_t die_after_tokens = 0;
  double gpu_memory_ratio = 0.97;  ///< above the limit, inference fails after a while
  double out_of_memory_after_seconds = 3;
};

/// One server on one loop. Thread: the loop's, but for the constructor, which comes before it runs.
class SimulatedServer final : public CompletionObserver {
 public:
  /// `preset` and `kind` are those that the options name. Listens on `fd` (bound and listening).
  SimulatedServer(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                  EngineKind kind, int fd);
  SimulatedServer(const SimulatedServer&) = delete;
  ~SimulatedServer() override;

  const std::string& name() const { return options_.name; }
  Loop& loop() { return loop_; }
  /// JSON: who it is and where.
  std::string description() const;
  std::string state() const;
  /// Reads a JSON object of any of `fault`, `slow_factor`, `error_status`, `die_after_tokens`,
  /// `gpu_memory_ratio`, `out_of_memory_after_seconds`.
  Result<Done> change_state(std::string json);
  std::string report();

 private:
  class Connection;
  class HungRequest;

  void accept(int fd, const Endpoint& peer);
  Task<void> serve(Connection& connection, std::unique_ptr<Socket> socket, Endpoint peer);
  void reap();
  void open_listener();
  void close_listener();
  /// Ends connections: those between two requests, or all of them with a reset.
  void drop_idle_connections();
  void reset_connections();
  void apply_fault(SimFault before);
  void die();
  void unfreeze();
  void completed() override { ++completed_; }
  void aborted(int fd) override;
  bool refuses_while_loading() const { return kind_ == EngineKind::vllm; }
  bool loading() const { return state_.fault == SimFault::loading; }
  bool out_of_memory() const;

  Task<Result<Response>> handle(Connection& connection, Request& request);
  Task<Result<Response>> handle_when_unfrozen(Connection& connection, Request& request);
  Task<Result<Response>> route(Request& request, int fd);
  std::optional<Response> handle_get(std::string_view method, std::string_view path);
  std::optional<Response> handle_health(std::string_view method, std::string_view path);
  Task<Result<Response>> sglang_health();
  Task<Result<Response>> control(Request& request);
  Task<Result<Response>> echo(Request& request);
  Task<Result<Response>> infer(Request& request, int fd);
  Task<Result<Response>> dispatch(std::string_view path, std::string body, int fd);
  Task<Result<Response>> complete(OpenAiApi api, std::string body, int fd);
  Task<Result<Response>> embed(std::string body, int fd);
  Task<Result<Response>> kserve_infer(std::string body, int fd);
  Task<Result<Response>> kserve_generate(std::string body, bool streams, int fd);
  Response tokenize(std::string body);

  // Over gRPC: simulated_grpc.cc.
  Task<Result<Response>> grpc(Request& request, int fd);
  Task<Result<Response>> grpc_infer(Request& request, int fd);
  Response describe(std::string_view method, std::string_view message);
  std::optional<GrpcError> model_is_away(std::string_view name, std::string_view version) const;
  std::optional<GrpcError> check(const ModelInferRequest& request, std::uint32_t& items) const;
  Task<GrpcResult<ModelInferResponse>> run(ModelInferRequest& request, std::uint32_t items, int fd);
  Task<std::optional<GrpcError>> run_batched(std::uint32_t items, int fd);
  GrpcResult<ChoiceSpec> plan_text(const ModelInferRequest& request);
  Task<Result<Response>> model_infer(std::string message, int fd);
  Task<void> answer(std::string message, bool as_grpc_error, GrpcStreamWriter& writer, int fd);
  Task<void> stream_text(const ModelInferRequest& request, ChoiceSpec plan,
                         GrpcStreamWriter& writer, int fd);

  std::unique_ptr<Completion> start(std::vector<ChoiceSpec> plans, bool streams, int fd);
  std::optional<ApiError> plan(const OpenAiRequest& request, const Prompt& prompt,
                               const CompletionHead& head, std::vector<ChoiceSpec>& plans);
  std::optional<ApiError> check_model(const OpenAiRequest& request) const;
  CompletionHead completion_head(OpenAiApi api, std::string_view body) const;
  Response error_response(const ApiError& refused);
  Response kserve_error_response(int status, std::string_view message);
  Response metrics(bool dcgm);
  Response metrics_of(std::string_view target);
  std::string render_metrics(bool dcgm);

  struct DeferredCall : Waiter {
    using MemberFunction = void (SimulatedServer::*)();
    DeferredCall(SimulatedServer& owner, MemberFunction what)
        : Waiter([](Waiter& self) {
            auto& later = static_cast<DeferredCall&>(self);
            (later.server.*later.act)();
          }),
          server(owner),
          act(what) {}
    SimulatedServer& server;
    MemberFunction act;
  };

  /// What the report counts, over all processes that this server pretends to have been.
  struct Totals {
    std::uint64_t requests = 0;
    std::uint64_t failed = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t generated_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t steps = 0;
  };
  Totals totals();

  struct Aborts {
    std::uint64_t count = 0;
    double last_seconds = 0;  ///< from the close's arrival in the kernel until the engine was free
    double longest_seconds = 0;
    double sum_seconds = 0;
    double last_unix = 0;
  };

  Loop& loop_;
  SimulatorOptions options_;
  const Preset& preset_;
  EngineKind kind_;
  std::string model_;
  Endpoint endpoint_;
  int port_reservation_fd_ = -1;  // bound, never listening: keeps the port ours while we refuse
  FrontendOptions frontend_;
  EngineRunner runner_;
  BatchRunner batches_;
  SimState state_;
  Instant memory_full_since_ = never;  // its GPU memory is above the limit
  std::string stale_metrics_;
  std::string stale_dcgm_;
  Totals previous_totals_;  // of the processes before this one
  std::uint64_t completed_ = 0;
  Aborts aborts_;
  bool dying_ = false;
  std::optional<Listener> listener_;
  WaiterList idle_;
  WaiterList hung_;
  std::list<Connection> connections_;
  std::vector<Connection*> ended_;
  DeferredCall reap_{*this, &SimulatedServer::reap};
  DeferredCall die_{*this, &SimulatedServer::die};
  DeferredCall unfreeze_{*this, &SimulatedServer::unfreeze};
};

}  // namespace evenkeel
