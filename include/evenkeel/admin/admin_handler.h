// The admin listener: health, readiness, metrics, and what the daemon knows, as JSON.
#pragma once

#include <memory>
#include <string_view>

#include "evenkeel/admin/backend_state.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/http/message.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Answers on the control thread. Nothing that it does makes a worker wait.
///
/// REQUIRES: the overview has its fleet when this is made; both outlive it.
class AdminHandler final : public Handler {
 public:
  AdminHandler(Loop& loop, const RuntimeAccess& runtime);
  Task<Result<Response>> handle(Request& request) override;

 private:
  Task<void> watch_states();
  void update();
  Task<bool> all_loops_responsive();
  Response readyz(std::string_view query) const;
  Response metrics() const;

  Loop& loop_;
  const RuntimeAccess& runtime_;
  BackendStateHistory history_;
  Task<void> state_watcher_;
};

/// Serves the admin listener's connections.
class AdminHost final : public FrontendCallbacks {
 public:
  AdminHost(Loop& loop, const RuntimeAccess& runtime)
      : handler_(std::make_shared<AdminHandler>(loop, runtime)) {}

  std::shared_ptr<Handler> plan() override { return handler_; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  WaiterList& idle_connections() override { return idle_; }
  void closed(const FrontendOptions&) override { --connections_; }

  /// There is room for one more, who is counted until `closed`. Operators are few; whoever opens
  /// hundreds would take the descriptors that requests need.
  bool admit() {
    if (connections_ >= max_connections) return false;
    ++connections_;
    return true;
  }

 private:
  static constexpr unsigned max_connections = 128;

  std::shared_ptr<AdminHandler> handler_;
  WaiterList idle_;
  unsigned connections_ = 0;
};

}  // namespace evenkeel
