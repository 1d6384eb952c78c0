#include "evenkeel/server/daemon.h"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "evenkeel/admin/admin_server.h"
#include "evenkeel/admin/key_set_fetcher.h"
#include "evenkeel/admin/trace_exporter.h"
#include "evenkeel/admin/usage_sender.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/base/cpu_limit.h"
#include "evenkeel/base/descriptor_limit.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/loop_liveness.h"
#include "evenkeel/base/refusal_text.h"
#include "evenkeel/config/load.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/scaling/scaling_feed.h"
#include "evenkeel/server/process_environment.h"
#include "evenkeel/state/state_file.h"
#include "evenkeel/upgrade/inherited_sockets.h"
#include "evenkeel/upgrade/predecessor.h"
#include "evenkeel/upgrade/upgrade_reports.h"
#include "server/drain.h"
#include "server/log_config.h"
#include "server/memory_guard.h"
#include "server/preparation_steps.h"
#include "server/process_signals.h"
#include "server/reloader.h"
#include "server/service_notifier.h"
#include "server/state_saver.h"
#include "server/upgrade.h"
#include "server/worker_group.h"

namespace evenkeel {
namespace {

/// The most that `workers` may say.
constexpr unsigned max_workers = 1024;

/// Short enough that a standby backend joins before waiting requests time out.
constexpr Duration pool_tick_interval = std::chrono::milliseconds(100);
/// How long the start waits for the first check of every backend: the longest default timeout of a
/// check, and a second more.
constexpr Duration max_initial_check_wait = std::chrono::seconds(6);
/// How often it is checked whether memory of past connections can be returned to the system.
constexpr Duration memory_check_interval = std::chrono::seconds(10);
/// Connections that must have ended for that to be worth it.
constexpr std::uint64_t min_ended_connections = 500;
/// A process that was replaced is in no hurry: requests have at least this long to finish.
constexpr Duration min_drain_after_upgrade = std::chrono::hours(1);
/// The time for replies of the admin listener that are being sent when another process takes it
/// over.
constexpr Duration admin_drain_time = std::chrono::seconds(1);
/// How long such a reply waits for workers to close their listeners: they accept no more then.
constexpr Duration max_retire_time = admin_drain_time / 2;

/// How long the end waits until the last usage records are in their file, to send them from there.
constexpr std::chrono::milliseconds max_usage_flush(500);

/// Limits malloc to one arena per worker and one each for the control, preparation and management
/// threads: few enough that memory of a past burst is reused, and enough that no worker waits for
/// another thread.
void limit_malloc_arenas(unsigned workers) { mallopt(M_ARENA_MAX, static_cast<int>(workers) + 3); }

/// The environment without name look-ups: the daemon resolves names while it runs, and a name that
/// has no address at the start is not a mistake in the file.
Environment daemon_environment() {
  Environment environment = process_environment();
  environment.resolve_error = nullptr;
  return environment;
}

void print_listening(const std::string& name, const Endpoint& endpoint) {
  log::print("listening name=" + name + " address=" + endpoint.text());
}

unsigned worker_count(const Config& config, const CpuLimit& limit) {
  return config.workers != 0 ? config.workers : std::min(limit.threads(), max_workers);
}

/// Counts those of the start: each worker's loop and its sockets, and what the process has besides.
/// Connections come on top.
std::uint64_t descriptors_needed(const Config& config, unsigned workers) {
  constexpr std::uint64_t of_process = 32;
  constexpr std::uint64_t of_loop = 3;
  return of_process + workers * (of_loop + config.listeners.size());
}

/// Everything that lives from start to exit.
///
/// Thread: the control thread, which is the process's first.
class Daemon {
 public:
  /// `program`: what an upgrade runs.
  Daemon(const Config& config, std::string file, std::string version, Program program);
  Daemon(const Daemon&) = delete;
  /// Ends the process if a file is being checked.
  ~Daemon();

  /// Binds the listeners and starts the threads. Returns why it cannot; empty: it runs.
  std::vector<Problem> start(LoadResult loaded);
  /// Runs until a signal ends it; returns the exit code.
  int run();

 private:
  void note_cpu_quota(const Config& config, unsigned workers);
  RuntimeAccess runtime_access();
  KeySetFetcher::Sink key_set_sink();
  Result<Done> open_access_log(const AccessLogConfig& config, unsigned workers);
  Result<Done> open_usage_log(const UsageConfig& config, unsigned workers);
  Result<Done> open_audit_log(const AuditConfig& config);
  Result<int> bind_admin(const Address& address);
  Result<Done> take_over(const Config& config);
  Result<Done> start_admin();
  void print_all_listening() const;
  Task<void> begin_serving(PreparedChange change);
  void record_start();
  Task<void> watch_signals();
  Task<void> run_pool_maintenance();
  Task<void> return_memory();
  void reopen_logs();
  void end_by_signal(pid_t sender);
  Task<void> drain();
  Task<void> finish_connections(Retire how, Duration limit);
  void shorten_drain();
  Task<Result<Done>> take_over_by(Binary binary);
  void move_admin(int fd);
  void hand_over();
  Task<void> watch_successor(bool by_systemd);
  Task<void> drain_after_upgrade();

  ProcessSignals signals_;
  InheritedSockets inherited_;
  Predecessor predecessor_;
  ServiceNotifier notifier_;
  const std::string config_file_;
  const Program program_;
  const CpuLimit cpu_limit_ = cpu_limit();
  RuntimeStatusPublisher status_;
  Loop loop_;
  Watch signal_watch_;
  MemoryGuard memory_guard_{loop_, status_};
  ScalingFeed scaling_;
  std::unique_ptr<MetricsRegistry> metrics_registry_;
  std::unique_ptr<AccessLog> access_log_;
  std::unique_ptr<AccessLog> usage_log_;  // null: off
  std::unique_ptr<AuditLog> audit_log_;   // null: off
  std::optional<TraceExporter> trace_exporter_;
  std::optional<UsageSender> usage_sender_;
  std::optional<WorkerGroup> workers_;
  std::optional<Reloader> reloader_;
  std::optional<StateSaver> state_saver_;
  std::optional<KeySetFetcher> key_set_fetcher_;
  std::optional<Drain> drain_;
  std::optional<Upgrade> upgrade_;
  RuntimeAccess runtime_;
  int admin_fd_ = -1;  // the admin server's, once that has started
  std::unique_ptr<AdminServer> admin_server_;
  bool handed_over_ = false;  // to the successor, which also has the state file
  bool draining_ = false;     // a signal ends this process
  bool finished_ = false;
  int exit_code_ = exit_done;
};

Daemon::Daemon(const Config& config, std::string file, std::string version, Program program)
    : inherited_(daemon_environment().variable),
      predecessor_(daemon_environment().variable),
      notifier_(daemon_environment().variable),
      config_file_(std::move(file)),
      program_(std::move(program)),
      status_({.version = std::move(version),
               .config_file = config_file_,
               .started = Clock::now(),
               .loaded_at = std::chrono::system_clock::now(),
               .config = std::make_shared<const Config>(config)}) {}

Daemon::~Daemon() {
  if (workers_) workers_->stop();
  admin_server_.reset();  // after the workers, so that /readyz answers until they have stopped
  trace_exporter_.reset();
  key_set_fetcher_.reset();
  loop_.drop_spawned();
  workers_.reset();
  // No request is left: the file has all records, for what the sender does at its end.
  if (usage_log_ != nullptr) usage_log_->flush(max_usage_flush);
  usage_sender_.reset();
  if (!finished_ || !reloader_->is_preparing()) return;
  // The file that is being checked is of no use any more, and checking it may take long, or never
  // end: on a dead mount, for example.
  upgrade_.reset();
  access_log_.reset();
  usage_log_.reset();
  audit_log_.reset();
  std::quick_exit(exit_code_);
}

// ---- start ------------------------------------------------------------------------------------

// Long: its steps in order, each of which can fail.
std::vector<Problem> Daemon::start(LoadResult loaded) {
  const Config& config = loaded.config;
  apply_log_config(config.log);
  const unsigned workers = worker_count(config, cpu_limit_);
  note_cpu_quota(config, workers);
  const auto failure = [this, places = loaded.places](const char* path, Error error) {
    Problem problem{.file = config_file_, .path = path, .message = std::move(error.detail)};
    places.locate(problem);
    return std::vector<Problem>{std::move(problem)};
  };
  limit_malloc_arenas(workers);
  raise_descriptor_limit();
  const std::uint64_t needed = descriptors_needed(config, workers);
  if (const auto limit = descriptor_limit(); limit && *limit < needed) {
    return failure("", {.detail = fmt::format(
                            "too few file descriptors: the limit is {}, and {} workers with {} "
                            "listeners need {}; raise it (ulimit -n, LimitNOFILE=)",
                            *limit, workers, config.listeners.size(), needed)});
  }
  if (!signal_watch_.try_open(loop_, signals_.fd())) {
    return failure("", {.detail = "cannot wait for signals: " + refusal_text("", errno)});
  }

  auto opened = open_access_log(config.access_log, workers);
  if (!opened) return failure("access_log.path", std::move(opened.error()));
  opened = open_usage_log(config.usage, workers);
  if (!opened) return failure("usage.path", std::move(opened.error()));
  opened = open_audit_log(config.audit);
  if (!opened) return failure("audit.path", std::move(opened.error()));
  const Address admin_address = config.admin.address;
  metrics_registry_ = std::make_unique<MetricsRegistry>(workers);
  trace_exporter_.emplace(*metrics_registry_, status_.snapshot()->version);
  usage_sender_.emplace(status_.snapshot()->version);
  key_set_fetcher_.emplace(status_.snapshot()->version, key_set_sink());
  workers_.emplace(loop_, workers, *metrics_registry_, access_log_.get(), usage_log_.get(),
                   audit_log_.get(), memory_guard_.pressure(), !cpu_limit_.is_below(workers),
                   &scaling_);
  reloader_.emplace(
      Reloader::Process{.loop = loop_,
                        .inherited = inherited_,
                        .notifier = notifier_,
                        .workers = *workers_,
                        .status = status_,
                        .environment = daemon_environment(),
                        .access_log = access_log_.get(),
                        .usage_log = usage_log_.get(),
                        .audit_log = audit_log_.get(),
                        .key_sets = &*key_set_fetcher_,
                        .trace_exporter = &*trace_exporter_,
                        .usage_sender = &*usage_sender_,
                        .scaling = &scaling_,
                        .take_over = [this](Binary which) { return take_over_by(which); },
                        .takeover_obstacle = takeover_obstacle(program_),
                        .move_admin = [this](int fd) { move_admin(fd); },
                        .may_busy_poll = !cpu_limit_.is_below(workers)},
      config_file_, workers, config.dns);
  state_saver_.emplace(loop_, *reloader_, status_);
  drain_.emplace(loop_, *workers_, notifier_);
  upgrade_.emplace(loop_, *reloader_, program_);
  runtime_ = runtime_access();

  auto taken_over = take_over(config);
  if (!taken_over) return failure("", std::move(taken_over.error()));
  const auto file = std::make_shared<LoadResult>(std::move(loaded));
  auto preparing = reloader_->prepare([file] { return std::move(*file); });
  loop_.run_until([&preparing] { return preparing.ready(); });
  PreparedReload prepared = preparing.take();
  if (!prepared.file.problems.empty()) return std::move(prepared.file.problems);
  auto admin_fd = bind_admin(admin_address);
  if (!admin_fd) return failure("admin.address", std::move(admin_fd.error()));
  admin_fd_ = *admin_fd;

  workers_->start();
  loop_.spawn(begin_serving(std::move(*prepared.change)));
  print_all_listening();
  if (predecessor_.present()) return {};  // which answers operators until this process is ready
  auto started = start_admin();
  if (!started) return failure("admin.tls", std::move(started.error()));
  return {};
}

/// What the admin listener reads and changes. REQUIRES: all of it exists.
RuntimeAccess Daemon::runtime_access() {
  return {.status = &status_,
          .metrics_registry = metrics_registry_.get(),
          .access_log = access_log_.get(),
          .usage_log = usage_log_.get(),
          .audit_log = audit_log_.get(),
          .loops = workers_->loops(),
          .control_loop = &loop_,
          .connections = [this] { return workers_->connections(); },
          .control = &*reloader_,
          .backend_monitor = &reloader_->backend_monitor(),
          .memory = &memory_guard_.figures(),
          .key_sets = &*key_set_fetcher_,
          .usage_sender = &*usage_sender_,
          .scaling = &scaling_};
}

/// Hands key sets to the control loop.
KeySetFetcher::Sink Daemon::key_set_sink() {
  return [this](const std::string& url, std::shared_ptr<const JwkSet> keys) {
    loop_.post([this, url, keys = std::move(keys)] { reloader_->adopt_key_set(url, keys); });
  };
}

void Daemon::note_cpu_quota(const Config& config, unsigned workers) {
  status_.update([&](RuntimeStatus& status) {
    status.cpu_quota = cpu_limit_.quota;
    status.may_busy_poll = !cpu_limit_.is_below(workers);
  });
  if (!cpu_limit_.quota) return;
  const bool spares = config.busy_polling && cpu_limit_.is_below(workers);
  log::process.info(fmt::format("the CPU quota of this cgroup is {:.3g} CPUs: {} worker{}{}",
                                *cpu_limit_.quota, workers, workers == 1 ? "" : "s",
                                spares ? ", without busy_polling" : ""));
}

/// Takes what the process that this one replaces has passed, if there is one; else what the last
/// one has saved.
Result<Done> Daemon::take_over(const Config& config) {
  if (!predecessor_.present()) {
    if (config.state_file.empty()) return Done{};
    auto saved = read_state_file(config.state_file);
    if (saved) reloader_->restore(std::move(*saved), config);
    return Done{};
  }
  auto received = predecessor_.receive_sockets(inherited_);
  if (!received) return received;
  auto state = parse_state(predecessor_.receive_state());
  if (state) {
    reloader_->restore(std::move(*state), config);
  } else {
    log::state.warning("the state of the previous process is not used: " + state.error().detail);
  }
  return Done{};
}

Result<Done> Daemon::start_admin() {
  auto listening = Listener::begin_listening(admin_fd_);
  if (!listening) return listening;
  auto started = AdminServer::start(admin_fd_, runtime_);
  if (!started) return std::move(started.error());
  admin_server_ = std::move(*started);
  return Done{};
}

Result<Done> Daemon::open_access_log(const AccessLogConfig& config, unsigned workers) {
  if (config.path == "off") return Done{};
  auto opened = AccessLog::open(config.path, workers);
  if (!opened) return std::move(opened.error());
  access_log_ = std::move(*opened);
  return Done{};
}

Result<Done> Daemon::open_usage_log(const UsageConfig& config, unsigned workers) {
  if (!config.is_on()) return Done{};
  auto opened = AccessLog::open(config.path, workers, AccessLog::Options::for_usage());
  if (!opened) return std::move(opened.error());
  usage_log_ = std::move(*opened);
  return Done{};
}

Result<Done> Daemon::open_audit_log(const AuditConfig& config) {
  if (!config.is_on()) return Done{};
  Result<std::string> key = std::string();
  if (!config.key_file.empty()) key = read_audit_key(config.key_file);
  if (!key) {
    return Error{.fault = Fault::internal,
                 .detail = "audit.key_file " + config.key_file + " " + key.error().detail};
  }
  auto opened = AuditLog::open(config.path, std::move(*key));
  if (!opened) return std::move(opened.error());
  audit_log_ = std::move(*opened);
  return Done{};
}

Result<int> Daemon::bind_admin(const Address& address) {
  auto endpoints = resolve(address.host, address.port);
  if (!endpoints) return std::move(endpoints.error());
  const int inherited = inherited_.take("admin", endpoints->front(), address);
  if (inherited >= 0) return inherited;
  const bool shared = inherited_.shares_port(endpoints->front().port());
  return shared ? Listener::bind_shared_idle(endpoints->front())
                : Listener::bind(endpoints->front());
}

void Daemon::print_all_listening() const {
  for (const OpenListener& listener : reloader_->listener_set().open())
    print_listening(listener.name, listener.endpoint);
  print_listening("admin", Listener::local_endpoint(admin_fd_));
}

int Daemon::run() {
  loop_.spawn(watch_signals());
  loop_.spawn(run_pool_maintenance());
  loop_.spawn(return_memory());
  loop_.spawn(memory_guard_.run(*workers_));
  loop_.spawn(notifier_.feed_watchdog(loop_, workers_->loops()));
  loop_.run_until([this] { return finished_; });
  state_saver_->save_at_exit();
  if (audit_log_ != nullptr)
    audit_log_->record("stop", {{"pid", getpid()}, {"exit_code", exit_code_}});
  return exit_code_;
}

/// The sockets are listening already: connections wait in the kernel until the first checks have
/// shown which backends are up.
Task<void> Daemon::begin_serving(PreparedChange change) {
  co_await reloader_->commit(std::move(change), max_initial_check_wait);
  if (draining_) co_return;
  status_.update([this](RuntimeStatus& status) {
    status.ready = true;
    if (predecessor_.present()) status.replaced.emplace();
  });
  if (predecessor_.present()) {
    auto started = start_admin();
    if (!started) {
      log::process.error("start failed: " + started.error().detail);
      exit_code_ = exit_failed;
      finished_ = true;
      co_return;
    }
    predecessor_.report_ready();
    loop_.spawn(follow_replaced_process(
        loop_, predecessor_.channel(), [this] { return predecessor_.runs(); }, status_));
  }
  record_start();
  log::print("ready");
  notifier_.ready(reloader_->summary());
  loop_.spawn(reloader_->serve());
  loop_.spawn(state_saver_->save_periodically());
}

void Daemon::record_start() {
  if (audit_log_ == nullptr) return;
  const auto status = status_.snapshot();
  audit_log_->record("start",
                     {{"pid", getpid()},
                      {"version", status->version},
                      {"file", config_file_},
                      {"config", status->config_hash},
                      {"replaces", predecessor_.present() ? JsonValue(getppid()) : JsonValue()}});
}

Task<void> Daemon::run_pool_maintenance() {
  while (true) {
    co_await loop_.sleep_for(pool_tick_interval);
    reloader_->tick_pools();
  }
}

/// Returns memory to the system after a burst of connections, after a file that was read or checked
/// and after a DNS update. What free lists and the heap keep makes the next requests
/// fast, so nothing is returned while as many connections are open.
Task<void> Daemon::return_memory() {
  std::uint64_t peak = 0;
  std::uint64_t rebuilds = 0;
  while (true) {
    co_await loop_.sleep_for(memory_check_interval);
    const std::uint64_t open = workers_->connections();
    peak = std::max(peak, workers_->take_peak_connections());
    const bool after_burst = peak >= open + min_ended_connections && open <= peak / 2;
    const std::uint64_t rebuilt = reloader_->rebuilds();
    const bool after_rebuild = std::exchange(rebuilds, rebuilt) != rebuilt;
    if (!after_burst && !after_rebuild) continue;
    if (after_burst) peak = open;
    co_await workers_->release_memory();
  }
}

/// The one before closes once the connections that wait there are accepted.
void Daemon::move_admin(int fd) {
  inherited_.close_taken("admin");
  admin_fd_ = fd;
  admin_server_->move_to(fd);
  print_listening("admin", Listener::local_endpoint(fd));
}

// ---- signals and shutdown ---------------------------------------------------------------------

Task<void> Daemon::watch_signals() {
  while (true) {
    const ProcessSignals::Received signal = signals_.next();
    switch (signal.number) {
      case 0:
        signal_watch_.mark_not_readable();
        co_await signal_watch_.until_readable();
        break;
      case SIGHUP: reloader_->queue_reload(); break;
      case SIGUSR1: reopen_logs(); break;
      case SIGUSR2: reloader_->queue_upgrade(); break;
      case SIGINT:
      case SIGTERM:
      case SIGQUIT: end_by_signal(signal.sender); break;
      default: break;
    }
  }
}

void Daemon::reopen_logs() {
  if (access_log_ != nullptr) {
    auto reopened = access_log_->reopen();
    if (!reopened) log::access_log.error("access log not reopened: " + reopened.error().detail);
  }
  // Its file follows with the next record.
  if (audit_log_ != nullptr) audit_log_->record("logs_reopened", {{"pid", getpid()}});
  if (usage_log_ == nullptr) return;
  auto reopened = usage_log_->reopen();
  if (!reopened)
    log::usage.error("usage records go on in the old file: " + reopened.error().detail);
}

void Daemon::end_by_signal(pid_t sender) {
  if (upgrade_->runs_as(sender)) {  // it is being stopped
    if (handed_over_) shorten_drain();
    return;
  }
  if (!draining_) {
    draining_ = true;
    if (audit_log_ != nullptr)
      audit_log_->record("stopping", {{"pid", getpid()}, {"signal_from", sender}});
    if (handed_over_) return shorten_drain();
    predecessor_.stop();
    reloader_->begin_shutdown(
        {.reason = "the daemon is shutting down", .help = "start it again", .pass_on_reload = [] {
           log::reload.warning("not reloaded: the daemon is shutting down");
         }});
    upgrade_->cancel();
    loop_.spawn(drain());
    return;
  }
  log::process.warning("second signal: exiting with requests in flight");
  if (workers_->connections() > 0) exit_code_ = exit_timeout;
  finished_ = true;
}

/// First /readyz fails, then the listeners close, then the daemon waits for requests in flight.
Task<void> Daemon::drain() {
  const std::string summary = fmt::format("draining {} connections", workers_->connections());
  log::process.info(summary);
  notifier_.stopping(summary);
  status_.update([](RuntimeStatus& status) { status.draining = true; });
  co_await drain_->delay(reloader_->config().shutdown.delay);
  inherited_.close_all();  // a socket listens until its last descriptor is closed
  co_await finish_connections(Retire::closing, reloader_->config().shutdown.drain);
  finished_ = true;
}

/// The process was in no hurry after an upgrade, and is now.
void Daemon::shorten_drain() {
  predecessor_.stop();
  drain_->shorten(reloader_->config().shutdown.drain);
}

Task<void> Daemon::finish_connections(Retire how, Duration limit) {
  scaling_.close();  // ends streams that have no end
  const bool finished = co_await drain_->finish_connections(how, limit);
  if (!finished) exit_code_ = exit_timeout;
}

// ---- upgrade ----------------------------------------------------------------------------------

/// Runs while no change does, so that the listeners stay as they are.
Task<Result<Done>> Daemon::take_over_by(Binary binary) {
  const auto refuse = [](std::string why) {
    return Error{.fault = Fault::internal, .side = Side::proxy, .detail = std::move(why)};
  };
  if (handed_over_ || draining_) {
    log::process.warning("no upgrade: this process is draining");
    co_return refuse(handed_over_ ? "another process has taken over already"
                                  : "the daemon is shutting down");
  }
  log::process.info("upgrade: starting " + program_.path);
  notifier_.reloading();
  status_.update([](RuntimeStatus& status) { status.upgrading = true; });
  co_await state_saver_->save();
  if (draining_) co_return refuse("the daemon is shutting down");
  auto started = co_await upgrade_->start_successor(binary, admin_fd_);
  if (draining_) co_return refuse("the daemon is shutting down");
  std::string problem = started ? "" : std::move(started.error().detail);
  status_.update([&](RuntimeStatus& status) {
    status.upgrade_problem = problem;
    status.upgrading = false;
    status.successor = problem.empty() ? upgrade_->pid() : 0;
  });
  if (audit_log_ != nullptr) {
    audit_log_->record("upgrade", {{"pid", getpid()},
                                   {"program", program_.path},
                                   {"ok", problem.empty()},
                                   {"problem", problem}});
  }
  if (!problem.empty()) {
    log::process.error("upgrade failed; this process continues: " + problem);
    notifier_.ready("upgrade failed: " + problem);
    co_return refuse(std::move(problem));
  }
  hand_over();
  // A client that connects once the upgrade is answered reaches the other process.
  co_await all_responsive(loop_, workers_->loops(), loop_.now() + max_retire_time);
  log::process.info(fmt::format("upgrade: process {} has taken over; draining {} connections",
                                upgrade_->pid(), workers_->connections()));
  co_return Done{};
}

void Daemon::hand_over() {
  handed_over_ = true;
  state_saver_->stop();
  usage_sender_->retire();
  reloader_->begin_shutdown({.reason = "another process has taken over",
                             .help = "send it again, to that process",
                             .pass_on_reload = [this] { upgrade_->pass_on_reload(); }});
  const bool by_systemd = notifier_.active();
  notifier_.hand_over(upgrade_->pid(), reloader_->summary());
  loop_.spawn(watch_successor(by_systemd));
  loop_.spawn(report_to_successor(loop_, upgrade_->channel(), status_));
  loop_.spawn(drain_after_upgrade());
}

/// The new process is a child of this one, so this one alone learns how it ends. systemd learns of
/// a failure when this process exits, and starts the service again.
Task<void> Daemon::watch_successor(bool by_systemd) {
  const std::string problem = co_await upgrade_->wait_end();
  if (problem.empty()) {
    upgrade_->forget();
    co_return;
  }
  exit_code_ = exit_failed;
  log::process.error(
      fmt::format("process {}, which had taken over, has failed: {}; {}", upgrade_->pid(), problem,
                  by_systemd ? "exiting, so that systemd starts the service again"
                             : "no process accepts connections until evenkeel is started"));
  if (by_systemd) {
    finished_ = true;
  } else {
    upgrade_->forget();
  }
}

Task<void> Daemon::drain_after_upgrade() {
  status_.update([](RuntimeStatus& status) { status.draining = true; });
  admin_server_->retire();
  inherited_.close_all();
  const Duration limit =
      std::max<Duration>(reloader_->config().shutdown.drain, min_drain_after_upgrade);
  Task<void> finishing = finish_connections(Retire::handed_over, limit);
  co_await loop_.sleep_for(admin_drain_time);
  admin_server_.reset();  // clients that keep connections open reach the other process from now on
  co_await finishing;
  finished_ = true;
}

// ---- the process ------------------------------------------------------------------------------

/// A process that takes over for a reload runs /proc/self/exe, and the kernel would call it "exe".
void set_process_name() { prctl(PR_SET_NAME, "evenkeel"); }

int run(LoadResult loaded, const std::string& file, const std::string& version, Program program) {
  set_process_name();
  const std::string text = loaded.text;
  if (!loaded.ok()) {
    log::print(render_problems(loaded.problems, text));
    return exit_failed;
  }
  if (!loaded.warnings.empty()) log::print(render_problems(loaded.warnings, text));
  std::optional<Daemon> daemon;
  std::vector<Problem> problems;
  try {
    daemon.emplace(loaded.config, file, version, std::move(program));
    problems = daemon->start(std::move(loaded));
  } catch (const std::system_error& error) {  // a loop or a thread
    problems.push_back(
        {.file = file, .message = "cannot start: " + refusal_text("", error.code().value())});
  }
  if (problems.empty()) return daemon->run();
  log::print(render_problems(problems, text));
  return exit_failed;
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  return run(load_config(options.config_file, daemon_environment()), options.config_file,
             options.version, Program::of_this_process());
}

int run_daemon_with(const std::string& config_text, const std::string& version) {
  const std::string name(no_config_file);
  return run(read_config(config_text, name, daemon_environment()), name, version, {});
}

}  // namespace evenkeel
