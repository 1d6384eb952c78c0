// One simulated inference server: its listener, its connections, and the control of its faults.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"
#include "evenkeel/wire/frontend.h"
#include "sim/engine_api.h"
#include "sim/sim_state.h"
#include "sim/simulated_model.h"

namespace evenkeel {

/// One server on one loop. Thread: the loop's, but for the constructor, which comes before it runs.
class SimulatedServer final {
 public:
  /// `preset` and `engine` are those that the options name. Listens on `fd` (bound and listening).
  SimulatedServer(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                  const SimulatedEngine& engine, int fd);
  SimulatedServer(const SimulatedServer&) = delete;
  ~SimulatedServer();

  const std::string& name() const { return options_.name; }
  Loop& loop() { return loop_; }
  /// JSON: what it counted.
  std::string report();
  /// A page of the control API, as JSON. Errors: no_route: there is no such page; bad_request: what
  /// is wrong with the new state (see SimState).
  Result<std::string> control_page(std::string_view path, bool changes, std::string_view body);

 private:
  class Connection;
  class HungRequest;

  std::string description() const;
  std::string state() const;
  void accept(int fd, const Endpoint& peer);
  Task<void> serve(Connection& connection, std::unique_ptr<Socket> socket, Endpoint peer);
  void reap();
  void open_listener();
  void close_listener();
  /// Closes the connections between two requests; resets all of them.
  void drop_idle_connections();
  void reset_connections();
  void apply_fault(SimFault before);
  void die();
  void unfreeze();

  Task<Result<Response>> handle(Connection& connection, Request& request);
  Task<Result<Response>> handle_when_unfrozen(Connection& connection, Request& request);
  Task<Result<Response>> route(Request& request, int client_fd);
  Task<Result<Response>> control(Request& request);
  Task<Result<Response>> echo(Request& request);
  std::optional<Response> metrics(const Request& request);
  std::string metrics_page();
  std::string dcgm_page();

  Loop& loop_;
  SimulatorOptions options_;
  const SimulatedEngine& engine_;
  Endpoint endpoint_;
  OwnedFd port_reservation_;  // bound, never listening: keeps the port while we refuse
  ListenerConfig frontend_;
  SimulatedModel model_;
  std::unique_ptr<EngineApi> api_;
  std::string stale_metrics_;
  std::string stale_dcgm_;
  std::optional<Listener> listener_;
  IdleList idle_;
  WaiterList hung_;
  std::list<Connection> connections_;
  std::vector<Connection*> ended_;
  MethodWaiter<&SimulatedServer::reap> reap_{*this};
  MethodWaiter<&SimulatedServer::die> die_{*this};
  MethodWaiter<&SimulatedServer::unfreeze> unfreeze_{*this};
};

/// The response to a request for a page of the control API.
Response respond_control(Result<std::string> page);

}  // namespace evenkeel
