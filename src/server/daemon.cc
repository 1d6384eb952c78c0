#include "evenkeel/server/daemon.h"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "evenkeel/admin/admin_handler.h"
#include "evenkeel/admin/control.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/loop_liveness.h"
#include "evenkeel/config/load.h"
#include "evenkeel/net/dns_cache.h"
#include "evenkeel/server/process_environment.h"
#include "evenkeel/upstream/backend_monitor.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "server/listener_set.h"
#include "server/process_signals.h"
#include "server/service_notifier.h"
#include "server/worker.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_start_failed = 1;
constexpr int exit_drain_deadline = 3;

/// Short enough for a spare to stand in before those who wait give up.
constexpr Duration pool_tick_interval = std::chrono::milliseconds(100);

/// How long the start waits for the first result of every backend: the longest timeout of a check
/// by default, and some.
constexpr Duration max_initial_check_wait = std::chrono::seconds(6);
/// Between two changes because names have moved.
constexpr Duration min_dns_update_interval = std::chrono::seconds(1);
/// Of a worker's loop, at worst.
constexpr Duration max_loop_turn = std::chrono::seconds(1);
/// How long a start or a reload waits for name servers; names that are not found by then are found
/// later.
constexpr Duration max_dns_wait = std::chrono::seconds(3);
/// The same of a change, for backends that are new.
constexpr Duration max_new_backend_check_wait = std::chrono::milliseconds(100);

/// One memory arena per worker at most, and what bursts leave behind goes back to the system.
void limit_malloc_arenas(unsigned workers) { mallopt(M_ARENA_MAX, static_cast<int>(workers) + 1); }

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

/// Names are looked up while we run, not while the file is read: one without address is no mistake
/// in it.
Environment daemon_environment() {
  Environment environment = process_environment();
  environment.resolve_error = nullptr;
  return environment;
}

/// What can only be set at the start. Where two files differ in it, the new one cannot be taken.
std::vector<Problem> restart_only_changes(const Config& now, const Config& next,
                                          const std::string& file) {
  std::vector<Problem> problems;
  const auto say = [&](const char* path, const char* what) {
    problems.push_back({.file = file,
                        .path = path,
                        .message = std::string(what) + " cannot change while the daemon runs",
                        .help = "set it back, or restart"});
  };
  if (now.workers != next.workers) say("workers", "the number of threads");
  if (now.admin.address != next.admin.address) say("admin.address", "the admin listener's address");
  if (now.access_log != next.access_log) say("access_log", "where the access log goes");
  if (now.dns.servers != next.dns.servers) say("dns.servers", "the list of name servers");
  return problems;
}

/// A pipe or a device in the file's place would keep us waiting for its end.
LoadResult reread_config(const std::string& file) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(file, unknown)) {
    return load_config(file, daemon_environment());
  }
  LoadResult refused;
  refused.problems.push_back(
      {.file = file,
       .message = unknown ? "cannot be read: " + unknown.message() : "is not a file",
       .help = "a reload reads the file that the daemon was started with"});
  return refused;
}

std::set<std::string> hosts_of(const Config& config) {
  std::set<std::string> hosts;
  for (const PoolConfig& pool : config.pools) {
    for (const BackendConfig& backend : pool.backends) hosts.insert(backend.address.host);
  }
  return hosts;
}

/// Everything that lives from start to exit.
class Daemon final : public Control {
 public:
  Daemon(LoadResult loaded, std::string file, std::string version)
      : inherited_(daemon_environment().variable),
        notifier_(daemon_environment().variable),
        config_file_(std::move(file)),
        config_(std::make_shared<const Config>(std::move(loaded.config))),
        status_({.version = std::move(version),
                 .config_file = config_file_,
                 .config_hash = std::move(loaded.hash),
                 .started = Clock::now(),
                 .loaded_at = std::chrono::system_clock::now(),
                 .config = config_}) {
    runtime_.status = &status_;
    runtime_.control_loop = &loop_;
    runtime_.connections = [this] { return connections(); };
    runtime_.control = this;
    runtime_.backend_monitor = &backend_monitor_;
  }
  Daemon(const Daemon&) = delete;
  ~Daemon() override {
    admin_listener_.reset();
    loop_.drop_spawned();
    for (auto& worker : workers_) worker->stop();
  }

  Result<Done> start();
  int run();

  // ---- Control ----

  Task<std::vector<Problem>> reload() override;
  Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                std::uint32_t weight) override;

 private:
  /// One change of what runs; they come one after the other.
  struct Change {
    enum class Kind { reload, weight, dns };
    Change(Loop& loop, Kind what) : kind(what), done(loop) {}
    Kind kind;
    std::string pool;
    std::string backend;
    std::uint32_t weight = 0;
    Signal done;
    std::vector<Problem> problems;
    std::optional<Error> error;
  };
  using ChangePtr = std::shared_ptr<Change>;
  using Weights = decltype(BuildInputs::weights);

  Result<std::string> bind_admin();
  Task<void> begin_serving();
  Task<void> watch_signals();
  Task<void> run_pool_maintenance();
  void tick_pools();
  void update_backend_monitor();
  Task<void> apply_changes();
  Task<void> apply(Change& change);
  Task<void> reload(Change& change);
  Task<void> set_weight(Change& change);
  Task<void> apply_dns_update();
  void on_dns_change();
  Task<void> queue_dns_update_at(Instant when);
  Task<void> publish_to_workers(std::shared_ptr<const PoolSet> pool_set,
                                std::vector<ListenerAssignment> assignments);
  void queue_change(Change::Kind kind);
  Weights weights_for(const Config& next) const;
  void record_drained();
  BuildInputs build_inputs(const Weights& weights);
  BuildInputs running_build_inputs(const Weights& weights);
  void report_reload(const std::vector<Problem>& problems, const std::string& text);
  std::string summary() const;
  void reopen_logs();
  void close_unused_sockets();
  void begin_shutdown();
  Task<void> drain();
  std::uint64_t connections() const;
  static std::uint64_t seed() {
    return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  }
  Task<Result<std::vector<Endpoint>>> resolve_host(std::string host, std::uint16_t port);

  ProcessSignals signals_;
  InheritedSockets inherited_;
  ServiceNotifier notifier_;
  const std::string config_file_;
  std::shared_ptr<const Config> config_;
  std::shared_ptr<const PoolSet> pool_set_;
  RuntimeStatusPublisher status_;  // of these two, and what else operators see
  Loop loop_;
  std::unique_ptr<MetricsRegistry> metrics_registry_;
  std::unique_ptr<AccessLog> access_log_;
  std::vector<std::unique_ptr<Worker>> workers_;
  DnsCache dns_cache_{loop_, config_->dns, seed(), [this] { on_dns_change(); }};
  BackendMonitor backend_monitor_{loop_, seed(), [this](std::string host, std::uint16_t port) {
                                    return resolve_host(std::move(host), port);
                                  }};
  std::optional<ListenerSet> listener_set_;
  std::vector<ListenerAssignment> initial_assignments_;
  Weights weights_;                         // that operators set
  decltype(BuildInputs::drained) drained_;  // by operators, whether they are there now or not
  std::deque<ChangePtr> queued_changes_;
  Signal change_queued_{loop_};
  RuntimeAccess runtime_;
  FrontendOptions admin_options_;
  std::optional<AdminHost> admin_host_;
  std::optional<Listener> admin_listener_;
  bool dns_update_scheduled_ = false;
  Instant last_dns_update_{};
  bool shutting_down_ = false;
  bool finished_ = false;
  int exit_code_ = exit_done;
};

// ---- the start --------------------------------------------------------------------------------

Result<Done> Daemon::start() {
  unsigned count = config_->workers;
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  limit_malloc_arenas(count);
  raise_descriptor_limit();

  dns_cache_.set_hosts(hosts_of(*config_));
  const Instant patience = loop_.read_clock() + max_dns_wait;
  const auto found = dns_cache_.resolved(patience);
  loop_.run_until([&found] { return found.ready(); });
  auto pool_set = PoolSet::build(*config_, build_inputs({}));
  if (!pool_set) return std::move(pool_set.error());
  pool_set_ = std::move(*pool_set);
  status_.update([this](RuntimeStatus& status) { status.pool_set = pool_set_; });
  metrics_registry_ = std::make_unique<MetricsRegistry>(count);
  runtime_.metrics_registry = metrics_registry_.get();
  if (config_->access_log.path != "off") {
    auto opened = AccessLog::open(config_->access_log.path, count);
    if (!opened) return std::move(opened.error());
    access_log_ = std::move(*opened);
    runtime_.access_log = access_log_.get();
  }
  for (unsigned i = 0; i < count; ++i) {
    AccessLogRing* ring = access_log_ == nullptr ? nullptr : &access_log_->ring(i);
    workers_.push_back(std::make_unique<Worker>(i, *metrics_registry_, ring));
    runtime_.loops.push_back(&workers_.back()->loop());
  }
  pool_set_->activate();
  tick_pools();

  listener_set_.emplace(count, inherited_);
  auto assignments = listener_set_->open(config_->listeners);
  if (!assignments) return std::move(assignments.error());
  initial_assignments_ = std::move(*assignments);
  auto admin = bind_admin();
  if (!admin) return std::move(admin.error());

  for (const std::string& line : listener_set_->startup_lines()) print_line(line);
  print_line(*admin);
  close_unused_sockets();
  for (auto& worker : workers_) {
    worker->adopt(config_, pool_set_);
    worker->start(workers_);
  }
  return Done{};
}

void Daemon::close_unused_sockets() {
  std::vector<Address> used{config_->admin.address};
  for (const ListenerConfig& listener : config_->listeners) used.push_back(listener.address);
  for (const std::string& socket : inherited_.close_unused(used)) {
    log::warning("inherited socket " + socket +
                 ": no listener has that name or that address; it is closed");
  }
}

Result<std::string> Daemon::bind_admin() {
  const Address& address = config_->admin.address;
  auto endpoints = resolve(address.host, address.port);
  if (!endpoints) return std::move(endpoints.error());
  int fd = inherited_.take("admin", address, endpoints->front(), 0);
  if (fd < 0) {
    auto bound = Listener::bind(endpoints->front());
    if (!bound) {
      bound.error().detail = "admin: " + bound.error().detail;
      return std::move(bound.error());
    }
    fd = *bound;
  }
  const Endpoint endpoint = Listener::local_endpoint(fd);
  admin_options_.listener = "admin";
  admin_options_.body_bytes = 1024 * 1024;
  admin_host_.emplace(loop_, runtime_);
  admin_listener_.emplace(loop_, fd, [this](int accepted, const Endpoint& peer) {
    // The one that has been idle longest makes room.
    if (!admin_host_->admit()) {
      if (!admin_host_->idle_connections().empty()) admin_host_->idle_connections().wake_first();
      close(accepted);
      return;
    }
    auto socket = Socket::adopt(loop_, accepted);
    if (socket == nullptr) {
      admin_host_->closed(admin_options_);
      return;
    }
    loop_.spawn(serve_http1(std::move(socket), peer, admin_options_, *admin_host_));
  });
  return fmt::format("listening name=admin address={}", endpoint.text());
}

int Daemon::run() {
  loop_.spawn(watch_signals());
  loop_.spawn(begin_serving());
  loop_.spawn(run_pool_maintenance());
  std::vector<Loop*> loops;
  for (auto& worker : workers_) loops.push_back(&worker->loop());
  loop_.spawn(notifier_.feed_watchdog(loop_, std::move(loops)));
  loop_.run_until([this] { return finished_; });
  return exit_code_;
}

/// The sockets listen already; who connects now is served when it is known who can answer.
Task<void> Daemon::begin_serving() {
  update_backend_monitor();
  co_await backend_monitor_.wait_for_first_results(loop_.read_clock() + max_initial_check_wait);
  if (shutting_down_) co_return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->loop().post(
        [worker = workers_[i].get(), assignments = std::move(initial_assignments_[i])] {
          worker->listen(assignments);
        });
  }
  status_.update([](RuntimeStatus& status) { status.ready = true; });
  print_line("ready");
  notifier_.ready(summary());
  loop_.spawn(apply_changes());
}

Task<void> Daemon::run_pool_maintenance() {
  while (true) {
    co_await loop_.sleep_for(pool_tick_interval);
    tick_pools();
  }
}

/// Spares come and go, speeds are learnt.
void Daemon::tick_pools() {
  const Instant now = loop_.read_clock();
  for (const PoolSet::PoolEntry& pool_entry : pool_set_->pools()) pool_entry.state->tick(now);
}

std::string Daemon::summary() const {
  std::size_t up = 0;
  std::size_t all = 0;
  for (const PoolSet::PoolEntry& pool_entry : pool_set_->pools()) {
    up += pool_entry.state->available(Clock::now());
    all += pool_entry.state->backends().size();
  }
  return fmt::format("serving {} pools, {} of {} backends up", pool_set_->pools().size(), up, all);
}

// ---- changes ----------------------------------------------------------------------------------

Task<std::vector<Problem>> Daemon::reload() {
  const auto change = std::make_shared<Change>(loop_, Change::Kind::reload);
  queued_changes_.push_back(change);
  change_queued_.raise();
  co_await change->done.wait();
  co_return change->problems;
}

Task<Result<Done>> Daemon::set_weight(std::string pool, std::string backend, std::uint32_t weight) {
  const auto change = std::make_shared<Change>(loop_, Change::Kind::weight);
  change->pool = std::move(pool);
  change->backend = std::move(backend);
  change->weight = weight;
  queued_changes_.push_back(change);
  change_queued_.raise();
  co_await change->done.wait();
  if (change->error) co_return std::move(*change->error);
  co_return Done{};
}

/// For whom nobody waits. One that waits to be made will see things as they are then: it serves
/// all.
void Daemon::queue_change(Change::Kind kind) {
  const bool waits = std::any_of(queued_changes_.begin(), queued_changes_.end(),
                                 [&](const ChangePtr& change) { return change->kind == kind; });
  if (waits) return;
  queued_changes_.push_back(std::make_shared<Change>(loop_, kind));
  change_queued_.raise();
}

Task<void> Daemon::apply_changes() {
  while (true) {
    while (!queued_changes_.empty()) {
      const ChangePtr change = std::move(queued_changes_.front());
      queued_changes_.pop_front();
      co_await apply(*change);
      change->done.raise();
    }
    co_await change_queued_.wait();
  }
}

Task<void> Daemon::apply(Change& change) {
  switch (change.kind) {
    case Change::Kind::reload: return reload(change);
    case Change::Kind::weight: return set_weight(change);
    case Change::Kind::dns: return apply_dns_update();
  }
  return {};
}

/// Reads, checks and builds everything before anything changes.
Task<void> Daemon::reload(Change& change) {
  if (shutting_down_) {
    change.problems.push_back({.file = config_file_,
                               .message = "not read: the daemon is leaving",
                               .help = "start it again"});
    co_return;
  }
  notifier_.reloading();
  LoadResult loaded = reread_config(config_file_);
  change.problems = std::move(loaded.problems);
  const auto refuse = [&](std::string path, Error error) {
    change.problems.push_back(
        {.file = config_file_, .path = std::move(path), .message = std::move(error.detail)});
  };
  std::shared_ptr<const Config> next;
  std::shared_ptr<const PoolSet> pool_set;
  std::vector<ListenerAssignment> assignments;
  Weights weights;
  if (change.problems.empty()) {
    change.problems = restart_only_changes(*config_, loaded.config, config_file_);
  }
  if (change.problems.empty()) {
    next = std::make_shared<const Config>(std::move(loaded.config));
    // Those of the old file too, until it is sure that it goes.
    auto hosts = hosts_of(*next);
    hosts.merge(hosts_of(*config_));
    dns_cache_.set_hosts(hosts);
    co_await dns_cache_.resolved(loop_.now() + max_dns_wait);
    weights = weights_for(*next);
    auto built = PoolSet::build(*next, build_inputs(weights), pool_set_.get());
    if (built) {
      pool_set = std::move(*built);
    } else {
      refuse("", std::move(built.error()));
    }
  }
  if (change.problems.empty()) {
    auto opened = listener_set_->open(next->listeners);
    if (opened) {
      assignments = std::move(*opened);
    } else {
      refuse("listeners", std::move(opened.error()));
    }
  }
  if (change.problems.empty()) {
    config_ = next;
    weights_ = std::move(weights);
    status_.update([&](RuntimeStatus& status) {
      status.config_hash = loaded.hash;
      status.loaded_at = std::chrono::system_clock::now();
    });
    close_unused_sockets();
    dns_cache_.set_ttl_limits(config_->dns.min_ttl, config_->dns.max_ttl);
    co_await publish_to_workers(std::move(pool_set), std::move(assignments));
  }
  dns_cache_.set_hosts(hosts_of(*config_));
  report_reload(change.problems, loaded.text);
}

void Daemon::report_reload(const std::vector<Problem>& problems, const std::string& text) {
  status_.update([&](RuntimeStatus& status) { status.reload_problems = problems; });
  if (problems.empty()) {
    log::info("reloaded " + config_file_ + ": " + summary());
    if (!shutting_down_) notifier_.ready(summary());
    return;
  }
  log::error("the file is not taken, what ran goes on:\n" + render_problems(problems, text));
  if (!shutting_down_) notifier_.ready("reload failed: " + problems.front().message);
}

/// Weights that operators have set hold until a file says something else than the file did then.
Daemon::Weights Daemon::weights_for(const Config& next) const {
  const auto configured_weight = [](const Config& config, const std::string& pool,
                                    const std::string& id) {
    const std::string address = id.substr(0, id.find('@'));
    for (const PoolConfig& each : config.pools) {
      if (each.name != pool) continue;
      for (const BackendConfig& backend : each.backends) {
        if (to_string(backend.address) == address) return backend.weight;
      }
    }
    return std::uint32_t{0};
  };
  Weights weights = weights_;
  std::erase_if(weights, [&](const auto& entry) {
    const auto& [pool, id] = entry.first;
    return configured_weight(*config_, pool, id) != configured_weight(next, pool, id);
  });
  return weights;
}

Task<void> Daemon::set_weight(Change& change) {
  Weights weights = weights_;
  weights[{change.pool, change.backend}] = change.weight;
  auto pool_set = PoolSet::build(*config_, running_build_inputs(weights), pool_set_.get());
  if (!pool_set) {
    change.error = std::move(pool_set.error());
    co_return;
  }
  weights_ = std::move(weights);
  co_await publish_to_workers(std::move(*pool_set), {});
}

/// A plan lives as long as the longest request under it: names that never rest shall not make one
/// with every answer.
void Daemon::on_dns_change() {
  if (dns_update_scheduled_) return;
  dns_update_scheduled_ = true;
  loop_.spawn(queue_dns_update_at(last_dns_update_ + min_dns_update_interval));
}

Task<void> Daemon::queue_dns_update_at(Instant when) {
  co_await loop_.sleep_until(when);
  dns_update_scheduled_ = false;
  last_dns_update_ = loop_.now();
  queue_change(Change::Kind::dns);
}

/// Backends have moved, come or gone.
Task<void> Daemon::apply_dns_update() {
  auto pool_set = PoolSet::build(*config_, running_build_inputs(weights_), pool_set_.get());
  if (!pool_set) {
    log::error("backends have moved, and are not followed: " + pool_set.error().detail);
    co_return;
  }
  co_await publish_to_workers(std::move(*pool_set), {});
  log::info("names have other addresses: " + summary());
}

void Daemon::update_backend_monitor() {
  std::size_t max_client_connections = 0;
  for (const ListenerConfig& listener : config_->listeners) {
    max_client_connections += listener.limits.max_connections;
  }
  backend_monitor_.update(monitor_specs(*config_, *pool_set_), max_client_connections);
}

/// Every worker has the new plan, and its doors where there are any, when this is done.
Task<void> Daemon::publish_to_workers(std::shared_ptr<const PoolSet> pool_set,
                                      std::vector<ListenerAssignment> assignments) {
  pool_set->activate();
  pool_set_ = std::move(pool_set);
  status_.update([this](RuntimeStatus& status) {
    status.config = config_;
    status.pool_set = pool_set_;
  });
  tick_pools();
  // Before anybody can pick them: what is new is closed until it has been checked, and that takes
  // no longer than a connection where it stands.
  update_backend_monitor();
  co_await backend_monitor_.wait_for_first_results(loop_.read_clock() + max_new_backend_check_wait);
  struct Barrier {
    explicit Barrier(Loop& loop) : done(loop) {}
    Signal done;
    std::size_t remaining = 0;
  };
  const auto wait = std::make_shared<Barrier>(loop_);
  wait->remaining = workers_.size();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker* const worker = workers_[i].get();
    const auto own = assignments.empty()
                         ? nullptr
                         : std::make_shared<const ListenerAssignment>(std::move(assignments[i]));
    worker->loop().post([this, worker, own, wait, config = config_, now = pool_set_] {
      worker->adopt(config, now);
      if (own != nullptr) worker->listen(*own);
      loop_.post([wait] {
        if (--wait->remaining == 0) wait->done.raise();
      });
    });
  }
  co_await wait->done.wait();
  pool_set_->reopen_resolved();
}

/// Of those whom nobody but the lookout asks: exporters of GPU metrics.
Task<Result<std::vector<Endpoint>>> Daemon::resolve_host(std::string host, std::uint16_t port) {
  auto answer = co_await dns_cache_.resolver().lookup(host, port);
  if (!answer) co_return std::move(answer.error());
  if (answer->addresses.empty()) {
    co_return Error{.fault = Fault::connect_failed,
                    .side = Side::backend,
                    .detail = "'" + host + "' has no address"};
  }
  co_return std::move(answer->addresses);
}

/// Who drains says so in the backend's load, which goes when a name server forgets the backend.
void Daemon::record_drained() {
  for (const PoolSet::PoolEntry& pool_entry : pool_set_->pools()) {
    for (const BackendPtr& backend : pool_entry.state->backends()) {
      const std::pair key(pool_entry.state->spec().name, backend->id());
      if (backend->load().is_out(OutOfRotation::draining)) {
        drained_.insert(key);
      } else {
        drained_.erase(key);
      }
    }
  }
  // What the file does not have any more is new if it comes back.
  std::erase_if(drained_, [&](const auto& key) {
    const std::string address = key.second.substr(0, key.second.find('@'));
    return std::none_of(config_->pools.begin(), config_->pools.end(), [&](const PoolConfig& pool) {
      return pool.name == key.first && std::any_of(pool.backends.begin(), pool.backends.end(),
                                                   [&](const BackendConfig& backend) {
                                                     return to_string(backend.address) == address;
                                                   });
    });
  });
}

BuildInputs Daemon::build_inputs(const Weights& weights) {
  if (pool_set_ != nullptr) record_drained();
  return {.find = [this](const Address& address) { return dns_cache_.find(address); },
          .weights = weights,
          .drained = drained_};
}

/// For what changes between two readings of the file: certificates and keys stay what they are,
/// whatever is being done to their files just now.
BuildInputs Daemon::running_build_inputs(const Weights& weights) {
  BuildInputs now = build_inputs(weights);
  now.reload_files = false;
  return now;
}

// ---- signals and the end ----------------------------------------------------------------------

Task<void> Daemon::watch_signals() {
  Watch watch(loop_, signals_.fd());
  while (true) {
    const int signal = signals_.next();
    switch (signal) {
      case 0:
        watch.mark_not_readable();
        co_await watch.until_readable();
        break;
      case SIGHUP: queue_change(Change::Kind::reload); break;
      case SIGUSR1: reopen_logs(); break;
      case SIGINT:
      case SIGTERM:
      case SIGQUIT: begin_shutdown(); break;
      default: break;
    }
  }
}

void Daemon::reopen_logs() {
  if (access_log_ == nullptr) return;
  auto reopened = access_log_->reopen();
  if (!reopened) log::error("access log: " + reopened.error().detail);
}

void Daemon::begin_shutdown() {
  if (!shutting_down_) {
    shutting_down_ = true;
    loop_.spawn(drain());
    return;
  }
  log::warning("asked twice to leave: leaving with requests unfinished");
  if (connections() > 0) exit_code_ = exit_drain_deadline;
  finished_ = true;
}

std::uint64_t Daemon::connections() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->connections();
  return sum;
}

/// Readiness fails first, then nobody new comes in, then requests end in their own time.
Task<void> Daemon::drain() {
  log::info(fmt::format("draining: {} connections", connections()));
  notifier_.stopping(fmt::format("draining {} connections", connections()));
  status_.update([](RuntimeStatus& status) { status.draining = true; });
  const Instant listeners_close_at = loop_.now() + config_->shutdown.delay;
  while (loop_.now() < listeners_close_at) {
    notifier_.extend_timeout(std::chrono::seconds(10));
    co_await loop_.sleep_until(std::min(listeners_close_at, loop_.now() + std::chrono::seconds(1)));
  }
  notifier_.extend_timeout(std::chrono::seconds(10));
  // Counted when every worker has closed its doors: until then somebody may be on his way in.
  std::vector<Loop*> loops;
  for (auto& worker : workers_) {
    worker->begin_drain();
    loops.push_back(&worker->loop());
  }
  co_await all_responsive(loop_, std::move(loops), loop_.now() + max_loop_turn);
  const Instant deadline = loop_.now() + config_->shutdown.drain;
  Instant last_report = loop_.now();
  while (connections() > 0 && loop_.now() < deadline) {
    co_await loop_.sleep_for(std::chrono::milliseconds(20));
    if (loop_.now() - last_report < std::chrono::seconds(1)) continue;
    last_report = loop_.now();
    notifier_.status(fmt::format("draining {} connections", connections()));
    notifier_.extend_timeout(std::chrono::seconds(10));
  }
  if (connections() > 0) {
    log::warning(fmt::format("drain deadline: {} connections are cut", connections()));
    exit_code_ = exit_drain_deadline;
  }
  finished_ = true;
}

int run(LoadResult loaded, const std::string& file, const std::string& version) {
  if (!loaded.ok()) {
    const std::string problems = render_problems(loaded.problems, loaded.text);
    std::fwrite(problems.data(), 1, problems.size(), stderr);
    return exit_start_failed;
  }
  Daemon daemon(std::move(loaded), file, version);
  auto started = daemon.start();
  if (!started) {
    log::error(started.error().detail);
    return exit_start_failed;
  }
  return daemon.run();
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  return run(load_config(options.config_file, daemon_environment()), options.config_file,
             options.version);
}

int run_daemon_with(const std::string& config_text, const std::string& version) {
  return run(read_config(config_text, "generated", daemon_environment()), "generated", version);
}

}  // namespace evenkeel
