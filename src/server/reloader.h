// Replaces the active configuration: on a reload, when an operator sets a weight, on a DNS update.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "evenkeel/admin/admin_tls.h"
#include "evenkeel/admin/control.h"
#include "evenkeel/admin/key_set_fetcher.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/admin/trace_exporter.h"
#include "evenkeel/admin/usage_sender.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/base/file_watch.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/discovery/discovery.h"
#include "evenkeel/net/dns_cache.h"
#include "evenkeel/scaling/autoscaler.h"
#include "evenkeel/state/saved_state.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/tenancy/key_table.h"
#include "evenkeel/upstream/backend_monitor.h"
#include "evenkeel/upstream/model_catalog.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "evenkeel/upstream/pool_set.h"
#include "server/change_queue.h"
#include "server/key_file.h"
#include "server/listener_set.h"
#include "server/operator_overrides.h"
#include "server/preparation_steps.h"
#include "server/preparation_thread.h"
#include "server/service_notifier.h"
#include "server/worker_group.h"

namespace evenkeel {

/// Everything that a commit makes active, completely built. Destroying it changes nothing.
struct PreparedChange {
  std::shared_ptr<const Config> config;     ///< as the file has it
  std::shared_ptr<const Config> effective;  ///< with the backends that were found
  std::shared_ptr<const PoolSet> pool_set;  ///< built from `effective`
  OperatorOverrides::Weights weights;
  std::optional<PreparedListeners> listeners;      ///< empty: the listeners stay as they are
  std::string hash;                                ///< of the file's text; empty: no file was read
  std::vector<std::string> changes;                ///< meaningful only with a `hash`
  std::shared_ptr<const VariablesUsed> variables;  ///< meaningful only with a `hash`
  AdminTls admin_tls;                              ///< meaningful only with a `hash`
  std::optional<AccessLogDestination> access_log;  ///< empty: it stays as it is
  std::optional<AccessLogDestination> usage_log;   ///< likewise
  OwnedFd admin_listener;                          ///< none: it stays as it is
  std::shared_ptr<const KeyTable> keys;            ///< null: they stay as they are
  std::optional<FileVersion> key_file;             ///< that they were read from
};

/// The program of a process that takes over.
enum class Binary : std::uint8_t {
  running,    ///< of this process
  installed,  ///< that is at its path now
};

/// The result of `prepare`.
struct PreparedReload {
  CheckedFile file;
  std::optional<PreparedChange> change;  ///< empty if rejected, or for a takeover
};

/// Every change goes through two steps: `prepare` reads, checks and builds, and can fail; `commit`
/// swaps, and cannot. What blocks or takes long runs on the preparation thread, so that checks,
/// timers and signals go on during `prepare`.
///
/// Thread: the control loop's.
class Reloader final : public Control {
 public:
  /// The parts of the process that it uses; they outlive it.
  struct Process {
    Loop& loop;
    InheritedSockets& inherited;
    ServiceNotifier& notifier;
    WorkerGroup& workers;
    RuntimeStatusPublisher& status;
    Environment environment;                  ///< for reading files
    AccessLog* access_log = nullptr;          ///< null: off
    AccessLog* usage_log = nullptr;           ///< null: off
    AuditLog* audit_log = nullptr;            ///< null: off
    KeySetFetcher* key_sets = nullptr;        ///< null: keys of issuers are not fetched
    TraceExporter* trace_exporter = nullptr;  ///< null: spans are not exported
    UsageSender* usage_sender = nullptr;      ///< null: usage records are not sent
    ScalingFeed* scaling = nullptr;           ///< null: replicas are not planned
    /// Starts another process, and hands over to it. REQUIRES: no change runs meanwhile.
    std::function<Task<Result<Done>>(Binary)> take_over = nullptr;
    std::string takeover_obstacle = {};  ///< why no process can take over; empty: one can
    /// Gives the admin listener another socket, which it owns from then on.
    std::function<void(int fd)> move_admin = nullptr;
    bool may_busy_poll = true;  ///< see WorkerGroup
  };

  /// `file`: the one that a reload reads.
  Reloader(Process process, std::string file, unsigned workers, const DnsConfig& dns);

  /// Reads a configuration. Thread: the preparation thread.
  using ReadConfig = std::function<LoadResult()>;

  /// Reads and checks a configuration and builds everything that it needs; changes nothing that is
  /// in use. Looks up the hosts of both configurations, follows the sources of backends of both,
  /// and keeps doing so until `watch_active`. Waits for sources and for name servers for at most 3
  /// s each; a pool without a list, and a host without an answer, start without.
  Task<PreparedReload> prepare(ReadConfig read);

  /// Makes the change active on all workers. Backends that are new get `check_wait` for their first
  /// health check before requests can be sent to any backend of the change.
  Task<void> commit(PreparedChange change, Duration check_wait);

  /// Looks up the hosts of the active configuration, and follows its sources of backends, and no
  /// others from now on.
  void watch_active();

  /// Runs queued changes, one after the other, for ever. REQUIRES: after the first commit.
  Task<void> serve();
  /// Queues a reload that has no waiter. After the shutdown has begun it is passed on.
  void queue_reload();
  /// What another process can continue with, but for what schedulers have learned. REQUIRES: after
  /// the first commit.
  SavedState saved_state();
  /// The active one, whose schedulers have learned the rest. REQUIRES: after the first commit.
  const std::shared_ptr<const PoolSet>& pool_set() const { return pool_set_; }
  /// Continues with what another process has saved. REQUIRES: before the first `prepare`.
  void restore(SavedState state, const Config& config);
  /// Runs work that blocks on the preparation thread.
  template <class Work>
  auto run_blocking(Work work) {
    return preparation_.run(std::move(work));
  }
  /// Runs work that takes locks of workers, malloc's among them, on a thread of normal priority:
  /// workers would wait until one of low priority gets a processor.
  template <class Work>
  auto run_with_locks(Work work) {
    return locking_thread().run(std::move(work));
  }
  /// Queues an upgrade that has no waiter. No change begins while it runs.
  void queue_upgrade();
  /// Reloads, previews and updates of DNS and discovery that have ended. Each leaves free memory in
  /// the heap.
  std::uint64_t rebuilds() const { return rebuilds_; }
  /// True if destroying the object would wait for work on one of these threads.
  bool is_preparing() const {
    return preparation_.busy() || (locking_ && locking_->busy()) ||
           (previewing_ && previewing_->busy());
  }
  /// Why nothing is changed any more.
  struct Shutdown {
    std::string reason;
    std::string help;
    std::function<void()> pass_on_reload;  ///< called for each queued reload that has no waiter
  };
  /// Rejects reloads, previews and weights from now on.
  void begin_shutdown(Shutdown shutdown) { shutdown_ = std::move(shutdown); }

  // Control
  Task<std::vector<Problem>> reload() override;
  Task<Result<Done>> upgrade() override;
  Task<Result<ReloadPreview>> preview(PreviewRequest request) override;
  Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                std::uint32_t weight) override;
  void set_drain_end(const std::string& pool, const std::string& backend,
                     std::optional<Time> end) override;

  /// Verifies tokens with these keys from now on, which were fetched; null: the first try has
  /// failed.
  void adopt_key_set(const std::string& url, std::shared_ptr<const JwkSet> keys);

  /// Moves standby backends into and out of rotation, learns weights, plans replicas, tells the
  /// workers which models there are, follows the file of API keys, and has keys fetched that tokens
  /// lack. Call it every 100 ms.
  void tick_pools();
  /// "serving 2 pools, 5 of 6 backends up"
  std::string summary() const;

  /// The active configuration. REQUIRES: after the first commit.
  const Config& config() const { return *config_; }
  const ListenerSet& listener_set() const { return listener_set_; }
  const BackendMonitor& backend_monitor() const { return backend_monitor_; }

 private:
  Task<std::vector<Problem>> run_reload();
  Task<void> check_takeover_and_sockets(CheckedFile& file, std::stop_token left,
                                        std::vector<std::string>& unchecked);
  Task<Result<Done>> run_set_weight(std::string pool, std::string backend, std::uint32_t weight);
  Task<void> take_over_for(CheckedFile& file);
  void adopt_config(PreparedChange& change);
  void adopt_issuers();
  Task<void> wait_for_key_sets(Instant deadline);
  Task<void> run_read_keys();
  Task<void> run_dns_update();
  void on_dns_change();
  Task<void> run_discovery_update();
  void on_discovery_change();
  Task<void> queue_discovery_update_at(Instant when);
  void publish_discovery();
  DiscoveryEnvironment discovery_environment();
  bool passes_checks(const std::string& host) const;
  Task<void> queue_dns_update_at(Instant when);

  Task<std::shared_ptr<const Config>> find_backends(std::shared_ptr<const Config> next);
  Task<void> resolve_hosts(std::shared_ptr<const Config> next, Duration max_wait);
  bool moves_admin(const Config& next) const;
  Result<OwnedFd> open_admin(const Config& next, const ListenerHosts& hosts) const;
  bool shares_admin_port(const Config& next, const Endpoint& endpoint) const;
  Result<Done> check_admin(const Config& next, const ListenerHosts& hosts) const;
  std::vector<std::string> socket_hosts(const Config& next) const;
  LogPaths new_logs(const Config& next) const;
  ActiveFile active_file() const { return {config_, variables_}; }
  BuildInputs build_inputs(const Config& config, const OperatorOverrides::Weights& weights,
                           bool reload_files);
  PreparationThread& locking_thread();
  PreparationThread& building_thread();
  Task<Result<PreparedChange>> prepare_running(OperatorOverrides::Weights weights);
  void close_unused_sockets();
  void report(const CheckedFile& file);
  void record_reload(const CheckedFile& file, const std::string& before) const;
  Task<Result<Resolver::ServiceAnswer>> find_services(std::string name);
  Task<Result<std::vector<Endpoint>>> resolve_host(std::string host, std::uint16_t port);

  std::vector<MonitorSpec> specs_to_monitor() const;
  void plan_replicas(Instant now);
  void apply_models();
  void end_drains();
  void publish_drain_ends();

  Process process_;
  const std::string file_;
  std::shared_ptr<const Config> config_;            // the active one; null before the first commit
  std::shared_ptr<const Config> effective_;         // likewise, with the backends that were found
  std::shared_ptr<const VariablesUsed> variables_;  // likewise
  std::shared_ptr<const PoolSet> pool_set_;         // likewise
  OperatorOverrides overrides_;
  SavedState::ObservedBackends restored_;  // of another process; empty after the first commit
  SavedState restored_schedulers_;         // likewise: nothing but those
  ListenerSet listener_set_;
  DnsCache dns_cache_;
  Discovery discovery_;
  BackendMonitor backend_monitor_;
  std::optional<Autoscaler> autoscaler_;  // empty: replicas are not planned
  bool knows_replicas_ = false;           // the first checks have ended
  std::set<std::string> listed_pools_;    // whose models the workers have to know
  ModelCatalogBuilder model_catalog_;
  std::shared_ptr<const KeyTable> keys_;  // null only before the first commit
  KeySets key_sets_;                      // that were fetched
  std::set<std::string> fetched_urls_;    // of those that are fetched
  std::set<std::string> untried_sets_;    // of those that were not tried yet
  Signal set_tried_;
  std::shared_ptr<const TokenIssuers> issuers_;  // with these sets; null: there are none
  FileWatch key_file_;
  PreparationThread preparation_;
  std::optional<PreparationThread> locking_;  // once there is such work
  ChangeQueue changes_;
  std::optional<PreparationThread> previewing_;  // once there was a preview
  bool preview_in_progress_ = false;
  std::uint64_t rebuilds_ = 0;
  bool dns_update_scheduled_ = false;
  Instant last_dns_update_{};
  bool discovery_update_scheduled_ = false;
  Instant last_discovery_update_{};
  std::optional<Shutdown> shutdown_;
};

}  // namespace evenkeel
