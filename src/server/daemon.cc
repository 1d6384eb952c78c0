#include "evenkeel/server/daemon.h"

#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "evenkeel/admin/admin_server.h"
#include "evenkeel/base/descriptor_limit.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/loop_liveness.h"
#include "evenkeel/config/load.h"
#include "evenkeel/server/process_environment.h"
#include "server/inherited_sockets.h"
#include "server/memory_guard.h"
#include "server/predecessor.h"
#include "server/process_signals.h"
#include "server/reloader.h"
#include "server/service_notifier.h"
#include "server/state_file.h"
#include "server/successor.h"
#include "server/worker_group.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_start_failed = 1;
constexpr int exit_successor_failed = 1;
constexpr int exit_drain_deadline = 3;

/// Short enough that a standby backend joins before waiting requests time out.
constexpr Duration pool_tick_interval = std::chrono::milliseconds(100);
/// How long the start waits for the first check of every backend: the longest default timeout of a
/// check, and a second more.
constexpr Duration max_initial_check_wait = std::chrono::seconds(6);
/// How often it is checked whether memory of past connections can be returned to the system.
constexpr Duration memory_check_interval = std::chrono::seconds(10);
/// Connections that must have ended for that to be worth it.
constexpr std::uint64_t min_ended_connections = 500;
/// How long a drain waits for busy workers to close their listeners.
constexpr Duration max_loop_turn = std::chrono::seconds(1);
/// By how much a drain extends systemd's stop timeout at a time.
constexpr Duration drain_timeout_extension = std::chrono::seconds(10);
/// How long the process that replaces this one may take to become ready.
constexpr Duration max_upgrade_time = std::chrono::seconds(60);
/// A process that was replaced is in no hurry: requests have at least this long to finish.
constexpr Duration min_drain_after_upgrade = std::chrono::hours(1);
constexpr Duration state_write_interval = std::chrono::minutes(1);
/// For replies of the admin listener that are being sent when another process takes it over.
constexpr Duration admin_drain_time = std::chrono::seconds(1);

/// Limits malloc to one arena per worker and one each for the control, preparation and management
/// threads: few enough that memory of a past burst is reused, and enough that no worker waits for
/// another thread.
void limit_malloc_arenas(unsigned workers) { mallopt(M_ARENA_MAX, static_cast<int>(workers) + 3); }

/// Without name look-ups: the daemon resolves names while it runs, and a name that has no address
/// at the start is not a mistake in the file.
Environment daemon_environment() {
  Environment environment = process_environment();
  environment.resolve_error = nullptr;
  return environment;
}

void print_listening(const std::string& name, const Endpoint& endpoint) {
  log::print("listening name=" + name + " address=" + endpoint.text());
}

unsigned worker_count(const Config& config) {
  return config.workers != 0 ? config.workers : std::max(1u, std::thread::hardware_concurrency());
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
  Result<Done> open_access_log(const AccessLogConfig& config, unsigned workers);
  Result<int> bind_admin(const Address& address);
  Result<Done> take_over(const Config& config);
  Result<Done> start_admin();
  void print_all_listening() const;
  Task<void> begin_serving(PreparedChange change);
  Task<void> watch_signals();
  Task<void> run_pool_maintenance();
  Task<void> return_memory();
  Task<void> save_state_periodically();
  Task<void> save_state();
  void save_state_at_exit();
  void report_state_write(const std::string& problem);
  void reopen_logs();
  void end_by_signal(pid_t sender);
  Task<void> drain();
  Task<void> delay_drain();
  Task<void> finish_connections(Retire how, Duration limit);
  void shorten_drain();
  std::string takeover_obstacle() const;
  Task<Result<Done>> take_over_by(Binary binary);
  Task<Result<Done>> start_successor(Binary binary);
  void move_admin(int fd);
  Handover handover();
  void hand_over();
  void pass_on_reload();
  Task<void> watch_successor(bool by_systemd);
  Task<void> drain_after_upgrade();

  ProcessSignals signals_;
  InheritedSockets inherited_;
  Predecessor predecessor_;
  ServiceNotifier notifier_;
  const std::string config_file_;
  const Program program_;
  RuntimeStatusPublisher status_;
  Loop loop_;
  MemoryGuard memory_guard_{loop_, status_};
  std::unique_ptr<MetricsRegistry> metrics_registry_;
  std::unique_ptr<AccessLog> access_log_;
  std::optional<WorkerGroup> workers_;
  /// Shared with writes that may outlive the daemon.
  const std::shared_ptr<StateFileWriter> state_writer_ = std::make_shared<StateFileWriter>();
  std::optional<Reloader> reloader_;
  RuntimeAccess runtime_;
  int admin_fd_ = -1;  // the admin server's, once that has started
  std::unique_ptr<AdminServer> admin_server_;
  std::optional<Successor> successor_;
  bool handed_over_ = false;        // to the successor, which also has the state file
  bool draining_ = false;           // a signal ends this process
  Instant drain_deadline_ = never;  // of the requests in flight
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
  loop_.drop_spawned();
  workers_.reset();
  if (!finished_ || !reloader_->is_preparing()) return;
  // The file that is being checked is of no use any more, and checking it may take long, or never
  // end: on a dead mount, for example.
  successor_.reset();
  access_log_.reset();
  std::quick_exit(exit_code_);
}

// ---- start ------------------------------------------------------------------------------------

std::vector<Problem> Daemon::start(LoadResult loaded) {
  const Config& config = loaded.config;
  const unsigned workers = worker_count(config);
  const auto failure = [this](const char* path, Error error) {
    return std::vector<Problem>{
        {.file = config_file_, .path = path, .message = std::move(error.detail)}};
  };
  limit_malloc_arenas(workers);
  raise_descriptor_limit();

  auto opened = open_access_log(config.access_log, workers);
  if (!opened) return failure("access_log.path", std::move(opened.error()));
  const Address admin_address = config.admin.address;
  metrics_registry_ = std::make_unique<MetricsRegistry>(workers);
  workers_.emplace(loop_, workers, *metrics_registry_, access_log_.get(), memory_guard_.pressure());
  reloader_.emplace(
      Reloader::Process{.loop = loop_,
                        .inherited = inherited_,
                        .notifier = notifier_,
                        .workers = *workers_,
                        .status = status_,
                        .environment = daemon_environment(),
                        .access_log = access_log_.get(),
                        .take_over = [this](Binary which) { return take_over_by(which); },
                        .takeover_obstacle = takeover_obstacle(),
                        .move_admin = [this](int fd) { move_admin(fd); }},
      config_file_, workers, config.dns);
  runtime_ = {.status = &status_,
              .metrics_registry = metrics_registry_.get(),
              .access_log = access_log_.get(),
              .loops = workers_->loops(),
              .control_loop = &loop_,
              .connections = [this] { return workers_->connections(); },
              .control = &*reloader_,
              .backend_monitor = &reloader_->backend_monitor(),
              .memory = &memory_guard_.figures()};

  auto taken_over = take_over(config);
  if (!taken_over) return failure("", std::move(taken_over.error()));
  const auto file = std::make_shared<LoadResult>(std::move(loaded));
  auto preparing = reloader_->prepare([file] { return std::move(*file); }, Reloader::Sockets::open);
  loop_.run_until([&preparing] { return preparing.ready(); });
  PreparedReload prepared = preparing.take();
  if (!prepared.problems.empty()) return std::move(prepared.problems);
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
    log::warning("what operators have set is lost: " + state.error().detail);
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
  save_state_at_exit();
  return exit_code_;
}

/// The sockets are listening already: connections wait in the kernel until the first checks have
/// shown which backends are up.
Task<void> Daemon::begin_serving(PreparedChange change) {
  co_await reloader_->commit(std::move(change), max_initial_check_wait);
  if (draining_) co_return;
  status_.update([](RuntimeStatus& status) { status.ready = true; });
  if (predecessor_.present()) {
    auto started = start_admin();
    if (!started) {
      log::error("start failed: " + started.error().detail);
      exit_code_ = exit_start_failed;
      finished_ = true;
      co_return;
    }
    predecessor_.report_ready();
  }
  log::print("ready");
  notifier_.ready(reloader_->summary());
  loop_.spawn(reloader_->serve());
  loop_.spawn(save_state_periodically());
}

Task<void> Daemon::run_pool_maintenance() {
  while (true) {
    co_await loop_.sleep_for(pool_tick_interval);
    reloader_->tick_pools();
  }
}

/// After a burst of connections, returns their memory to the system. What free lists and the heap
/// keep makes the next requests fast, so nothing is returned while as many connections are open.
Task<void> Daemon::return_memory() {
  std::uint64_t peak = 0;
  while (true) {
    co_await loop_.sleep_for(memory_check_interval);
    const std::uint64_t open = workers_->connections();
    peak = std::max(peak, workers_->take_peak_connections());
    if (peak < open + min_ended_connections || open > peak / 2) continue;
    peak = open;
    co_await workers_->release_memory();
  }
}

// ---- the state file ---------------------------------------------------------------------------

Task<void> Daemon::save_state_periodically() {
  while (true) {
    co_await save_state();
    co_await loop_.sleep_for(state_write_interval);
  }
}

/// REQUIRES: after the first commit.
Task<void> Daemon::save_state() {
  const std::string path = reloader_->config().state_file;
  const auto problem = std::make_shared<std::string>();
  if (!path.empty() && !handed_over_) {
    PreparationThread::Work write = [writer = state_writer_, path, problem,
                                     text = reloader_->saved_state(), taken = Clock::now()] {
      *problem = writer->write(path, text, taken);
    };
    co_await reloader_->run_blocking(std::move(write));
  }
  report_state_write(*problem);
}

void Daemon::save_state_at_exit() {
  if (handed_over_ || !status_.snapshot()->ready) return;
  const std::string& path = reloader_->config().state_file;
  if (path.empty()) return;
  report_state_write(state_writer_->write(path, reloader_->saved_state(), Clock::now()));
}

/// Logs a problem when it begins and when it ends, not every minute.
void Daemon::report_state_write(const std::string& problem) {
  const std::string before = status_.snapshot()->state_file_problem;
  if (problem == before) return;
  if (problem.empty()) {
    log::info("the state file is written again");
  } else if (before.empty()) {
    log::warning("the state is not saved: " + problem);
  }
  status_.update([&](RuntimeStatus& status) { status.state_file_problem = problem; });
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
  Watch watch(loop_, signals_.fd());
  while (true) {
    const ProcessSignals::Received signal = signals_.next();
    switch (signal.number) {
      case 0:
        watch.mark_not_readable();
        co_await watch.until_readable();
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
  if (access_log_ == nullptr) return;
  auto reopened = access_log_->reopen();
  if (!reopened) log::error("access log not reopened: " + reopened.error().detail);
}

void Daemon::end_by_signal(pid_t sender) {
  if (successor_ && successor_->runs_as(sender)) {  // it is being stopped
    if (handed_over_) shorten_drain();
    return;
  }
  if (!draining_) {
    draining_ = true;
    if (handed_over_) return shorten_drain();
    predecessor_.stop();
    reloader_->begin_shutdown(
        {.reason = "the daemon is shutting down", .help = "start it again", .pass_on_reload = [] {
           log::warning("not reloaded: the daemon is shutting down");
         }});
    if (successor_) successor_->cancel();
    loop_.spawn(drain());
    return;
  }
  log::warning("second signal: exiting with requests in flight");
  if (workers_->connections() > 0) exit_code_ = exit_drain_deadline;
  finished_ = true;
}

/// First /readyz fails, then the listeners close, then the daemon waits for requests in flight.
Task<void> Daemon::drain() {
  const std::string summary = fmt::format("draining {} connections", workers_->connections());
  log::info(summary);
  notifier_.stopping(summary);
  status_.update([](RuntimeStatus& status) { status.draining = true; });
  co_await delay_drain();
  inherited_.close_all();  // a socket listens until its last descriptor is closed
  co_await finish_connections(Retire::closing, reloader_->config().shutdown.drain);
  finished_ = true;
}

/// The process was in no hurry after an upgrade, and is now.
void Daemon::shorten_drain() {
  predecessor_.stop();
  const Duration limit = reloader_->config().shutdown.drain;
  drain_deadline_ = std::min<Instant>(drain_deadline_, loop_.now() + limit);
  log::info(fmt::format("draining {} connections for at most {} s", workers_->connections(),
                        std::chrono::ceil<std::chrono::seconds>(limit).count()));
}

/// Done when every connection has ended, or at `drain_deadline_`, which is at the latest `limit`
/// from now.
Task<void> Daemon::finish_connections(Retire how, Duration limit) {
  workers_->begin_drain(how);
  // Only after this can no worker accept another connection, so the count can reach 0.
  co_await all_responsive(loop_, workers_->loops(), loop_.now() + max_loop_turn);

  drain_deadline_ = std::min<Instant>(drain_deadline_, loop_.now() + limit);
  Instant last_report = loop_.now();
  while (workers_->connections() > 0 && loop_.now() < drain_deadline_) {
    co_await loop_.sleep_for(std::chrono::milliseconds(20));
    if (loop_.now() - last_report < std::chrono::seconds(1)) continue;
    last_report = loop_.now();
    notifier_.status(fmt::format("draining {} connections", workers_->connections()));
    notifier_.extend_timeout(drain_timeout_extension);
  }
  if (workers_->connections() > 0) {
    log::warning(
        fmt::format("drain deadline passed: closing {} connections", workers_->connections()));
    exit_code_ = exit_drain_deadline;
  }
}

/// Waits for `shutdown.delay`, so that load balancers in front can see that /readyz fails.
Task<void> Daemon::delay_drain() {
  const Instant end = loop_.now() + reloader_->config().shutdown.delay;
  while (loop_.now() < end) {
    notifier_.extend_timeout(drain_timeout_extension);
    co_await loop_.sleep_until(std::min(end, loop_.now() + std::chrono::seconds(1)));
  }
  notifier_.extend_timeout(drain_timeout_extension);
}

// ---- upgrade ----------------------------------------------------------------------------------

/// Why no process can take over from this one; empty: one can.
std::string Daemon::takeover_obstacle() const {
  if (program_.path.empty()) return "it needs a daemon that was started by `run -c FILE`";
  if (getpid() == 1)
    return "this is process 1 of a container, which would end with it: start another one";
  return "";
}

/// Runs while no change does, so that the listeners stay as they are.
Task<Result<Done>> Daemon::take_over_by(Binary binary) {
  const auto refuse = [](std::string why) {
    return Error{.fault = Fault::internal, .side = Side::proxy, .detail = std::move(why)};
  };
  if (handed_over_ || draining_) {
    log::warning("no upgrade: this process is draining");
    co_return refuse(handed_over_ ? "another process has taken over already"
                                  : "the daemon is shutting down");
  }
  log::info("upgrade: starting " + program_.path);
  notifier_.reloading();
  status_.update([](RuntimeStatus& status) { status.upgrading = true; });
  co_await save_state();
  if (draining_) co_return refuse("the daemon is shutting down");
  auto started = co_await start_successor(binary);
  if (draining_) co_return refuse("the daemon is shutting down");
  std::string problem = started ? "" : std::move(started.error().detail);
  status_.update([&](RuntimeStatus& status) {
    status.upgrade_problem = problem;
    status.upgrading = false;
    status.successor = problem.empty() ? successor_->pid() : 0;
  });
  if (!problem.empty()) {
    log::error("upgrade failed; this process continues: " + problem);
    notifier_.ready("upgrade failed: " + problem);
    co_return refuse(std::move(problem));
  }
  hand_over();
  co_return Done{};
}

void Daemon::hand_over() {
  handed_over_ = true;
  reloader_->begin_shutdown({.reason = "another process has taken over",
                             .help = "send it again, to that process",
                             .pass_on_reload = [this] { pass_on_reload(); }});
  const bool by_systemd = notifier_.active();
  notifier_.hand_over(successor_->pid(), reloader_->summary());
  log::info(fmt::format("upgrade: process {} has taken over; draining {} connections",
                        successor_->pid(), workers_->connections()));
  loop_.spawn(watch_successor(by_systemd));
  loop_.spawn(drain_after_upgrade());
}

/// The other process may have read the file before it was changed.
void Daemon::pass_on_reload() {
  const pid_t pid = successor_->pid();
  if (successor_->send(SIGHUP)) {
    log::info(fmt::format("reload passed on to process {}, which has taken over", pid));
  } else {
    log::warning(fmt::format("not reloaded: process {}, which had taken over, has ended", pid));
  }
}

/// The new process is a child of this one, so this one alone learns how it ends. systemd learns of
/// a failure when this process exits, and starts the service again.
Task<void> Daemon::watch_successor(bool by_systemd) {
  const std::string problem = co_await successor_->wait_end();
  if (problem.empty()) {
    successor_->forget();
    co_return;
  }
  exit_code_ = exit_successor_failed;
  log::error(fmt::format("process {}, which had taken over, has failed: {}; {}", successor_->pid(),
                         problem,
                         by_systemd ? "exiting, so that systemd starts the service again"
                                    : "no process accepts connections until evenkeel is started"));
  if (by_systemd) {
    finished_ = true;
  } else {
    successor_->forget();
  }
}

Task<Result<Done>> Daemon::start_successor(Binary binary) {
  const std::string obstacle = takeover_obstacle();
  if (!obstacle.empty())
    co_return Error{.fault = Fault::internal, .side = Side::proxy, .detail = obstacle};
  Program program = program_;
  if (binary == Binary::running) program.path = "/proc/self/exe";
  successor_.emplace(loop_);
  const Handover given = handover();
  auto started = co_await successor_->start(program, given, loop_.now() + max_upgrade_time);
  co_return started;
}

Handover Daemon::handover() {
  Handover handover{.listeners = {}, .state = reloader_->saved_state()};
  for (const OpenListener& each : reloader_->listener_set().open())
    handover.listeners.push_back({.name = each.name, .address = each.address, .fds = each.fds});
  handover.listeners.push_back(
      {.name = "admin", .address = reloader_->config().admin.address, .fds = {admin_fd_}});
  return handover;
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

int run(LoadResult loaded, const std::string& file, const std::string& version, Program program) {
  const std::string text = loaded.text;
  if (!loaded.ok()) {
    log::print(render_problems(loaded.problems, text));
    return exit_start_failed;
  }
  if (!loaded.warnings.empty()) log::print(render_problems(loaded.warnings, text));
  Daemon daemon(loaded.config, file, version, std::move(program));
  const std::vector<Problem> problems = daemon.start(std::move(loaded));
  if (!problems.empty()) {
    log::print(render_problems(problems, text));
    return exit_start_failed;
  }
  return daemon.run();
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  return run(load_config(options.config_file, daemon_environment()), options.config_file,
             options.version, Program::of_this_process());
}

int run_daemon_with(const std::string& config_text, const std::string& version) {
  return run(read_config(config_text, "generated", daemon_environment()), "generated", version, {});
}

}  // namespace evenkeel
