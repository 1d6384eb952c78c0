// The control listener of all simulated servers in a process. It stays open when they refuse.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/wire/frontend.h"
#include "sim/simulated_server.h"

namespace evenkeel {

/// Thread: its loop's; the servers may live on other loops.
class ControlServer final : public Handler, public FrontendCallbacks {
 public:
  /// Listens on `fd`. The servers outlive it.
  ControlServer(Loop& loop, std::vector<SimulatedServer*> servers, int fd);

  /// Stops accepting. Call it before the loop is destroyed, which ends the open connections.
  void close() { listener_.reset(); }

  std::shared_ptr<Handler> plan() override { return {std::shared_ptr<void>(), this}; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  IdleList& idle_connections(ClientNumber) override { return idle_; }
  void closed(const ListenerConfig&, ClientNumber) override {}
  Task<Result<Response>> handle(Request& request) override;

 private:
  Task<Result<std::string>> page_of(std::string path, bool changes, std::string body,
                                    std::string server);

  Loop& loop_;
  std::vector<SimulatedServer*> servers_;
  ListenerConfig frontend_;
  IdleList idle_;
  std::optional<Listener> listener_;
};

}  // namespace evenkeel
