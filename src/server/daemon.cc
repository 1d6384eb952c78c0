#include "evenkeel/server/daemon.h"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "admin.h"
#include "evenkeel/base/log.h"
#include "evenkeel/config/load.h"
#include "evenkeel/server/environment.h"
#include "worker.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_start_failed = 1;
constexpr int exit_drain_deadline = 3;

/// One memory arena per worker at most, and what bursts leave behind goes back to the system.
void tame_allocator(unsigned workers) { mallopt(M_ARENA_MAX, static_cast<int>(workers) + 1); }

/// A proxy needs two descriptors per request; the soft limit of 1024 is for programs that do not.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void print_line(const std::string& line) {
  const std::string whole = line + "\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, whole.data(), whole.size());
}

/// Signals of the process, read on the control loop. Made before any thread is, so that every
/// thread inherits the mask.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2}) {
      sigaddset(&wanted, number);
    }
    pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    fd_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  Signals(const Signals&) = delete;
  ~Signals() { close(fd_); }

  int fd() const { return fd_; }
  /// The next signal, or 0.
  int next() const {
    signalfd_siginfo info;
    return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_;
};

/// Everything that lives from start to exit.
class Daemon {
 public:
  Daemon(Config config, std::string file, std::string hash, std::string version)
      : config_(std::move(config)) {
    overview_.version = std::move(version);
    overview_.config_file = std::move(file);
    overview_.config_hash = std::move(hash);
    overview_.started = Clock::now();
    overview_.loaded_at = std::chrono::system_clock::now();
    overview_.config = &config_;
    overview_.workers = &workers_;
  }
  Daemon(const Daemon&) = delete;
  ~Daemon() {
    admin_listener_.reset();
    loop_.drop_spawned();
    for (auto& worker : workers_) worker->stop();
  }

  Result<Done> start();
  int run();

 private:
  Result<std::string> bind(const ListenerConfig& listener);
  Result<std::string> bind_admin();
  Task<void> watch_signals();
  Task<void> drain();
  std::uint64_t connections() const;

  Signals signals_;
  Config config_;
  Loop loop_;
  std::unique_ptr<Sheets> sheets_;
  std::unique_ptr<AccessLog> access_log_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Overview overview_;
  FrontendOptions admin_options_;
  std::optional<AdminHost> admin_host_;
  std::optional<Listener> admin_listener_;
  bool leaving_ = false;
  bool ended_ = false;
  int exit_code_ = exit_done;
};

Result<Done> Daemon::start() {
  unsigned count = config_.workers;
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  tame_allocator(count);
  raise_descriptor_limit();

  auto fleet = Fleet::build(config_);
  if (!fleet) return std::move(fleet.error());
  overview_.fleet = *fleet;
  sheets_ = std::make_unique<Sheets>(count);
  overview_.sheets = sheets_.get();
  if (config_.access_log.path != "off") {
    auto opened = AccessLog::open(config_.access_log.path, count);
    if (!opened) return std::move(opened.error());
    access_log_ = std::move(*opened);
    overview_.access_log = access_log_.get();
  }
  for (unsigned i = 0; i < count; ++i) {
    LineRing* ring = access_log_ == nullptr ? nullptr : &access_log_->ring(i);
    workers_.push_back(std::make_unique<Worker>(i, *sheets_, ring));
    workers_.back()->adopt(config_, overview_.fleet);
  }

  std::vector<std::string> lines;
  for (const ListenerConfig& listener : config_.listeners) {
    auto bound = bind(listener);
    if (!bound) return std::move(bound.error());
    lines.push_back(std::move(*bound));
  }
  auto admin = bind_admin();
  if (!admin) return std::move(admin.error());
  lines.push_back(std::move(*admin));

  for (auto& worker : workers_) worker->start(workers_);
  for (const std::string& line : lines) print_line(line);
  overview_.ready = true;
  print_line("ready");
  return Done{};
}

/// A socket per worker, all on the port that the first one got.
Result<std::string> Daemon::bind(const ListenerConfig& listener) {
  auto endpoints = resolve(listener.address.host, listener.address.port);
  if (!endpoints) return std::move(endpoints.error());
  Endpoint endpoint = endpoints->front();
  for (auto& worker : workers_) {
    const bool first = worker == workers_.front();
    auto fd = first ? Listener::bind(endpoint) : Listener::bind_beside(endpoint);
    if (!fd) {
      fd.error().detail = "listener " + listener.name + ": " + fd.error().detail;
      return std::move(fd.error());
    }
    endpoint = Listener::local_endpoint(*fd);
    worker->listen(listener, *fd);
  }
  return fmt::format("listening name={} address={}", listener.name, endpoint.text());
}

Result<std::string> Daemon::bind_admin() {
  auto endpoints = resolve(config_.admin.address.host, config_.admin.address.port);
  if (!endpoints) return std::move(endpoints.error());
  auto fd = Listener::bind(endpoints->front());
  if (!fd) {
    fd.error().detail = "admin: " + fd.error().detail;
    return std::move(fd.error());
  }
  const Endpoint endpoint = Listener::local_endpoint(*fd);
  admin_options_.listener = "admin";
  admin_options_.body_bytes = 1024 * 1024;
  admin_host_.emplace(loop_, overview_);
  admin_listener_.emplace(loop_, *fd, [this](int accepted, const Endpoint& peer) {
    auto socket = Socket::adopt(loop_, accepted);
    if (socket == nullptr) return;
    loop_.spawn(serve_http1(std::move(socket), peer, admin_options_, *admin_host_));
  });
  return fmt::format("listening name=admin address={}", endpoint.text());
}

int Daemon::run() {
  loop_.spawn(watch_signals());
  loop_.run_until([this] { return ended_; });
  return exit_code_;
}

Task<void> Daemon::watch_signals() {
  Watch watch(loop_, signals_.fd());
  while (true) {
    const int signal = signals_.next();
    if (signal == 0) {
      watch.not_readable();
      co_await watch.until_readable();
      continue;
    }
    switch (signal) {
      case SIGHUP:
        log::warning("SIGHUP: the file is read at the start only; restart to change it");
        break;
      case SIGUSR1:
        if (access_log_ != nullptr) {
          auto reopened = access_log_->reopen();
          if (!reopened) log::error("access log: " + reopened.error().detail);
        }
        break;
      case SIGINT:
      case SIGTERM:
      case SIGQUIT:
        if (leaving_) {
          log::warning("asked twice to leave: leaving with requests unfinished");
          if (connections() > 0) exit_code_ = exit_drain_deadline;
          ended_ = true;
        } else {
          leaving_ = true;
          loop_.spawn(drain());
        }
        break;
      default: break;
    }
  }
}

std::uint64_t Daemon::connections() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->connections();
  return sum;
}

/// Readiness fails first, then nobody new comes in, then requests end in their own time.
Task<void> Daemon::drain() {
  log::info(fmt::format("draining: {} connections", connections()));
  overview_.draining = true;
  if (config_.shutdown.delay.count() > 0) co_await loop_.sleep_for(config_.shutdown.delay);
  for (auto& worker : workers_) worker->begin_drain();
  const Instant deadline = loop_.now() + config_.shutdown.drain;
  while (connections() > 0 && loop_.now() < deadline) {
    co_await loop_.sleep_for(std::chrono::milliseconds(20));
  }
  if (connections() > 0) {
    log::warning(fmt::format("drain deadline: {} connections are cut", connections()));
    exit_code_ = exit_drain_deadline;
  }
  ended_ = true;
}

int run(LoadResult loaded, const std::string& file, const std::string& version) {
  if (!loaded.ok()) {
    const std::string problems = render_problems(loaded.problems, loaded.text);
    std::fwrite(problems.data(), 1, problems.size(), stderr);
    return exit_start_failed;
  }
  Daemon daemon(std::move(loaded.config), file, loaded.hash, version);
  auto started = daemon.start();
  if (!started) {
    log::error(started.error().detail);
    return exit_start_failed;
  }
  return daemon.run();
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  return run(load_config(options.config_file, process_environment()), options.config_file,
             options.version);
}

int run_daemon_with(const std::string& config_text, const std::string& version) {
  return run(read_config(config_text, "generated", process_environment()), "generated", version);
}

}  // namespace evenkeel
