// One thread, one loop, one listening socket per listener: connections live and die here.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/coding/window_budget.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/scaling/scaling_feed.h"
#include "evenkeel/stats/chunked_array.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/wire/frontend.h"
#include "server/audited_credentials.h"
#include "server/client_connections.h"
#include "server/listener_assignment.h"
#include "server/worker_listener.h"

namespace evenkeel {

class Worker final {
 public:
  /// `audit_log`: null: off; `scaling`: null: none. They and `memory_pressure`, of the process,
  /// outlive the worker.
  Worker(unsigned index, MetricsRegistry& metrics_registry, AccessLogRing* ring,
         AccessLogRing* usage_ring, AuditLog* audit_log, const MemoryPressureLevel& memory_pressure,
         bool may_busy_poll = true, ScalingFeed* scaling = nullptr);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // ---- before `start`, or on the worker's own thread ----

  /// Builds the plan of requests that begin from now on.
  void adopt(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
             std::shared_ptr<const KeyTable> keys = nullptr,
             std::shared_ptr<const TokenIssuers> issuers = nullptr);
  /// The API keys that count from now on. REQUIRES: they are for the active configuration.
  void adopt(std::shared_ptr<const KeyTable> keys) {
    if (plan_ != nullptr) plan_->adopt(std::move(keys));
  }
  /// The issuers whose tokens count from now on, on the same terms.
  void adopt(std::shared_ptr<const TokenIssuers> issuers) {
    if (plan_ != nullptr) plan_->adopt(std::move(issuers));
  }
  /// The models that requests find from now on.
  void adopt(std::shared_ptr<const ModelCatalog> models) { models_ = std::move(models); }
  /// See LinkPool::suspect; for the links to this backend.
  void suspect(const std::string& pool, const std::string& backend, Duration max_silence) {
    if (plan_ != nullptr) plan_->links().suspect(pool, backend, max_silence);
  }
  /// Listens on these. Listeners that are not among them retire. During a drain it listens on
  /// nothing.
  void listen(const ListenerAssignment& assignments);

  /// `peers`: all workers, including this one; they outlive the thread.
  void start(const std::vector<std::unique_ptr<Worker>>& peers);

  // ---- from any thread ----

  Loop& loop() { return loop_; }
  std::uint32_t connections() const { return connections_.load(std::memory_order_relaxed); }
  /// The most connections at a time since the last call. Thread: any, one at a time.
  std::uint32_t take_peak_connections() {
    return peak_connections_.exchange(connections(), std::memory_order_relaxed);
  }
  /// Closes the listeners and idle connections; the others end after their requests.
  void begin_drain(Retire how);
  /// Closes a share of the idle connections of each listener, those that are idle longest.
  void shed_idle(double share, ShedReason reason);
  /// Ends the thread, and with it all connections.
  void stop();

  // ---- for its listeners ----

  const std::shared_ptr<Plan>& plan() const { return plan_; }
  /// What answers the requests of listeners with `scaler`.
  const std::shared_ptr<Handler>& external_scaler() const { return external_scaler_; }
  MetricsRegistry& metrics_registry() { return metrics_registry_; }
  WorkerMetrics& worker_metrics() { return worker_metrics_; }
  void refused(const Refusal& refusal);
  /// Whether a new connection to a listener can be served. Where a limit is reached, another one
  /// makes room: of a large client, else the one that is idle longest, on any worker. A new one of
  /// a large client takes the place of none but a large client's.
  Listener::Room make_room(const WorkerListener& listener, int fd, const Endpoint& peer);
  /// A new connection: serves it, or hands it to another worker.
  void accepted(WorkerListener& listener, int fd, const Endpoint& peer);
  void descriptors_exhausted();
  void connection_began() {
    const std::uint32_t open = connections_.fetch_add(1, std::memory_order_relaxed) + 1;
    // A peak that another thread raises at the same time may be lost by one connection.
    if (open > peak_connections_.load(std::memory_order_relaxed)) {
      peak_connections_.store(open, std::memory_order_relaxed);
    }
  }
  void connection_ended() {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    if (paused_) [[unlikely]]
      resume_accepting();
  }

 private:
  class ConnectionHandoff {
   public:
    ConnectionHandoff(Worker& to, int fd);
    ConnectionHandoff(const ConnectionHandoff&) = delete;
    ~ConnectionHandoff();
    /// Ends the transfer where the connection has arrived: the descriptor is the caller's.
    int take() { return std::exchange(fd_, -1); }
    /// Takes the connection for another worker: as `take`, and it no longer counts for this one.
    int cancel();

   private:
    Worker& worker_;
    int fd_;
  };

  Task<void> retire_links(std::vector<std::shared_ptr<LinkPool>> pools);
  WorkerListener* find_listener(ListenerId id);
  bool shed(const WorkerListener* only, ShedReason reason, ClientSize for_client);
  bool shed_longest_idle(const WorkerListener* only, ClientSize size, ShedReason reason,
                         Instant idle_before);
  bool shed_handshake(const WorkerListener* only, ClientSize size, ShedReason reason,
                      Instant begun_before);
  void shed_for(Worker& other, ListenerId id, ClientSize size, ShedReason reason,
                Instant idle_before);
  bool any_connection() const;
  void resume_accepting();
  Worker& least_loaded();

  const unsigned index_;
  const bool may_busy_poll_;
  const int fd_reserve_threshold_;
  MetricsRegistry& metrics_registry_;
  WorkerMetrics& worker_metrics_;
  const MemoryPressureLevel& memory_pressure_;
  ChunkedArray<BySize<IdleSummary>> idle_;  // by listener, as the LabelIndex numbers them
  WindowBudget windows_;                    // of all plans
  Loop loop_;
  HeldBodies held_bodies_;  // of all plans
  std::optional<AuditedCredentials> audited_credentials_;
  RequestRecorder recorder_;
  std::shared_ptr<const ModelCatalog> models_;  // null: not known yet
  std::shared_ptr<Plan> plan_;
  const std::shared_ptr<Handler> external_scaler_;
  std::vector<std::weak_ptr<Plan>> former_plans_;  // that requests still hold
  // Retired listeners stay until they are empty, and until the next reload.
  std::list<WorkerListener> listeners_;
  bool draining_ = false;
  bool paused_ = false;  // a listener waits for room
  // Idle connections that other workers have asked this one to close.
  std::atomic<std::uint32_t> requested_sheds_{0};
  std::atomic<std::uint32_t> connections_{0};
  std::atomic<std::uint32_t> peak_connections_{0};
  const std::vector<std::unique_ptr<Worker>>* peers_ = nullptr;
  std::thread thread_;
};

}  // namespace evenkeel
