// One thread, one loop, one listening socket per listener: connections live and die here.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/wire/frontend.h"
#include "server/listener_assignment.h"
#include "server/worker_listener.h"

namespace evenkeel {

class Worker final {
 public:
  Worker(unsigned index, MetricsRegistry& metrics_registry, AccessLogRing* ring);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // ---- before `start`, or on the worker's own thread ----

  /// The plan of requests that begin from now on.
  void adopt(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set);
  /// Listens to these; the listeners that are not among them accept nobody any more. While it
  /// drains, it listens to nothing.
  void listen(const ListenerAssignment& assignments);

  /// `peers`: all workers, this one too; outlive the thread.
  void start(const std::vector<std::unique_ptr<Worker>>& peers);

  // ---- from any thread ----

  Loop& loop() { return loop_; }
  std::uint32_t connections() const { return connections_.load(std::memory_order_relaxed); }
  /// Closes the listeners and what is idle; the rest ends with its request.
  void begin_drain();
  /// Ends the thread, and with it every connection that is left.
  void stop();

  // ---- for its ports ----

  const std::shared_ptr<Plan>& plan() const { return plan_; }
  MetricsRegistry& metrics_registry() { return metrics_registry_; }
  WorkerMetrics& worker_metrics() { return worker_metrics_; }
  void refused(const Refusal& refusal);
  /// A new connection: it is served here, by another worker, or not at all.
  void accepted(WorkerListener& listener, int fd, const Endpoint& peer);
  void descriptors_exhausted();
  void connection_ended() { connections_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  class ConnectionHandoff {
   public:
    ConnectionHandoff(Worker& to, int fd);
    ConnectionHandoff(const ConnectionHandoff&) = delete;
    ~ConnectionHandoff();
    /// It has arrived.
    int take() { return std::exchange(fd_, -1); }
    /// It goes elsewhere.
    int cancel();

   private:
    Worker& worker_;
    int fd_;
  };

  Task<void> retire_links(std::vector<std::shared_ptr<LinkPool>> pools);
  WorkerListener* find_listener(ListenerId id);
  int close_idle(int count);
  Worker& least_loaded();

  const unsigned index_;
  const int fd_reserve_threshold_;
  MetricsRegistry& metrics_registry_;
  WorkerMetrics& worker_metrics_;
  Loop loop_;
  RequestRecorder recorder_;
  std::shared_ptr<Plan> plan_;
  std::list<WorkerListener>
      listeners_;  // those that have retired last until they are empty, and a reload more
  bool draining_ = false;
  std::atomic<std::uint32_t> connections_{0};
  const std::vector<std::unique_ptr<Worker>>* peers_ = nullptr;
  std::thread thread_;
};

}  // namespace evenkeel
