// The admin listener: health, readiness, metrics, and what the daemon knows, as JSON.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/pool.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/exposition.h"
#include "evenkeel/wire/frontend.h"
#include "worker.h"

namespace evenkeel {

/// What the admin listener tells about. Read on the control thread; all that it points to outlives
/// the listener.
struct Overview {
  std::string version;
  std::string config_file;
  std::string config_hash;
  Instant started{};
  std::chrono::system_clock::time_point loaded_at{};
  const Config* config = nullptr;
  std::shared_ptr<const Fleet> fleet;
  const std::vector<std::unique_ptr<Worker>>* workers = nullptr;
  Sheets* sheets = nullptr;
  const AccessLog* access_log = nullptr;  ///< null: off
  bool ready = false;
  bool draining = false;
};

/// Answers on the control thread. Nothing that it does makes a worker wait.
class AdminHandler final : public Handler {
 public:
  AdminHandler(Loop& loop, const Overview& overview) : loop_(loop), overview_(overview) {}
  Task<Result<Response>> handle(Request& request) override;

 private:
  Task<Result<Response>> healthz();
  Response readyz(std::string_view query) const;
  Response metrics() const;
  Response status() const;
  Response pools() const;
  Response backends() const;

  Loop& loop_;
  const Overview& overview_;
};

/// Serves the admin listener's connections.
class AdminHost final : public Host {
 public:
  AdminHost(Loop& loop, const Overview& overview)
      : handler_(std::make_shared<AdminHandler>(loop, overview)) {}

  std::shared_ptr<Handler> plan() override { return handler_; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  WaiterList& idle_connections() override { return idle_; }
  void closed(const FrontendOptions&) override {}

 private:
  std::shared_ptr<AdminHandler> handler_;
  WaiterList idle_;
};

}  // namespace evenkeel
