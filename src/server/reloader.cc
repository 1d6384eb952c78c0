#include "server/reloader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "evenkeel/base/free_memory.h"
#include "evenkeel/base/log.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/net/resolver.h"
#include "evenkeel/state/observed_backends.h"
#include "evenkeel/state/saved_schedulers.h"
#include "server/log_config.h"
#include "server/preparation_steps.h"

namespace evenkeel {
namespace {

/// Minimum time between two DNS updates. Each builds a plan per worker, which lives as long as its
/// longest request: names whose addresses change with every answer would pile up plans.
constexpr Duration min_dns_update_interval = std::chrono::seconds(1);
/// Minimum time between two updates of backends that come and go, and how long changes are gathered
/// for one. A backend that is about to end gets no requests within a second.
constexpr Duration min_discovery_update_interval = std::chrono::milliseconds(250);
constexpr Duration discovery_batch_time = std::chrono::milliseconds(100);
/// How long `prepare` waits for name servers. A host that is found later joins by a DNS update.
constexpr Duration max_dns_wait = std::chrono::seconds(3);
/// The same for an update of what runs, behind which other changes wait.
constexpr Duration max_update_dns_wait = std::chrono::milliseconds(500);
/// How long `prepare` waits for sources of backends. What they find later joins by an update.
constexpr Duration max_discovery_wait = std::chrono::seconds(3);
/// How long a commit waits for the first health check of the backends that it adds.
constexpr Duration max_new_backend_check_wait = std::chrono::milliseconds(100);
/// How long a commit waits for keys of issuers that it adds.
constexpr Duration max_key_set_wait = std::chrono::seconds(3);
/// Bounds the log of one reload: a new file may change thousands of backends.
constexpr std::size_t max_logged_changes = 50;
/// Limits for a file whose sockets are only checked: how many listeners, and how many host names of
/// theirs. A preview costs no more, whatever its text.
constexpr std::size_t max_checked_listeners = 256;
constexpr std::size_t max_checked_hosts = 16;

std::uint64_t seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

std::set<std::string> hosts_of(const Config& config) {
  std::set<std::string> hosts;
  for (const PoolConfig& pool : config.pools) {
    for (const BackendConfig& backend : pool.backends) hosts.insert(backend.address.host);
  }
  if (config.shared_state) hosts.insert(config.shared_state->redis.server.host);
  return hosts;
}

/// `number`: as of ListenerSet::prepare.
std::string path_of_listener(const Config& config, std::size_t number) {
  if (number >= config.listeners.size()) return "listeners";
  return fmt::format("listeners[{}].address", number);
}

/// Takes backends that are no longer found out of rotation, for requests that have a plan of before
/// and may be sent again. Each comes back, if at all, as another object.
void take_out_removed(const PoolSet& former, const PoolSet& active) {
  std::unordered_map<std::string_view, const PoolState*> now;
  for (const PoolSet::PoolEntry& entry : active.pools())
    now.emplace(entry.state->config().name, entry.state.get());
  for (const PoolSet::PoolEntry& entry : former.pools()) {
    const auto pool = now.find(entry.state->config().name);
    if (!entry.state->config().discover || pool == now.end()) continue;
    std::set<std::string_view> ids;
    for (const BackendPtr& backend : pool->second->backends()) ids.insert(backend->id());
    for (const BackendPtr& backend : entry.state->backends()) {
      if (!ids.contains(backend->id())) backend->state().take_out(OutOfRotation::unresolved);
    }
  }
}

/// The file of API keys; empty: there is none.
std::string key_file_of(const Config& config) {
  return config.auth ? config.auth->keys.file : std::string();
}

/// A problem of the file of keys: "keys.txt:3:5: ...".
std::string text_of(const FileProblem& problem, const Config& config) {
  std::string text = key_file_of(config);
  if (problem.line > 0) text += fmt::format(":{}:{}:", problem.line, problem.column);
  text += " " + problem.message;
  if (!problem.help.empty()) text += "; " + problem.help;
  return text;
}

/// Takes a log that was opened, if any was. Returns why it could not be; null: it was.
Error* adopt(std::optional<Result<AccessLogDestination>>& opened,
             std::optional<AccessLogDestination>& log) {
  if (!opened) return nullptr;
  if (!*opened) return &opened->error();
  log.emplace(std::move(**opened));
  return nullptr;
}

/// Over all listeners; 0: unlimited.
std::size_t max_client_connections(const Config& config) {
  std::size_t sum = 0;
  for (const ListenerConfig& listener : config.listeners) sum += listener.limits.max_connections;
  return sum;
}

}  // namespace

Reloader::Reloader(Process process, std::string file, unsigned workers, const DnsConfig& dns)
    : process_(std::move(process)),
      file_(std::move(file)),
      listener_set_(workers, process_.inherited),
      dns_cache_(
          process_.loop, dns, seed(), [this] { on_dns_change(); },
          [this](const std::string& host) { return passes_checks(host); }),
      discovery_(process_.loop, discovery_environment(), seed(), [this] { on_discovery_change(); }),
      backend_monitor_(
          process_.loop, seed(),
          [this](std::string host, std::uint16_t port) {
            return resolve_host(std::move(host), port);
          },
          [this](const std::string& pool, const std::string& backend, Duration max) {
            process_.workers.suspect(pool, backend, max);
          }),
      set_tried_(process_.loop),
      preparation_(process_.loop, "preparation"),
      changes_(process_.loop) {
  if (process_.scaling != nullptr) autoscaler_.emplace(*process_.scaling);
}

// ---- prepare ----------------------------------------------------------------------------------

bool Reloader::moves_admin(const Config& next) const {
  return config_ != nullptr && process_.move_admin != nullptr &&
         next.admin.address != config_->admin.address;
}

/// The admin listener's new socket; none: it stays. The old one may hold the port under a wider or
/// narrower address, and closes only after the new one is open.
Result<OwnedFd> Reloader::open_admin(const Config& next, const ListenerHosts& hosts) const {
  if (!moves_admin(next)) return OwnedFd();
  auto endpoint = endpoint_of(next.admin.address, hosts);
  if (!endpoint) return std::move(endpoint.error());
  auto bound = shares_admin_port(next, *endpoint) ? Listener::bind_shared(*endpoint)
                                                  : Listener::bind(*endpoint);
  if (!bound) return std::move(bound.error());
  OwnedFd opened(*bound);
  auto watched = Listener::check_watches({opened.get()});
  if (!watched) return std::move(watched.error());
  return opened;
}

/// What `open_admin` would fail with.
Result<Done> Reloader::check_admin(const Config& next, const ListenerHosts& hosts) const {
  if (!moves_admin(next)) return Done{};
  auto endpoint = endpoint_of(next.admin.address, hosts);
  if (!endpoint) return std::move(endpoint.error());
  return Listener::check_bind(*endpoint, shares_admin_port(next, *endpoint));
}

bool Reloader::shares_admin_port(const Config& next, const Endpoint& endpoint) const {
  return next.admin.address.port == config_->admin.address.port ||
         listener_set_.shares_port(endpoint);
}

/// The host names that new sockets need resolved.
std::vector<std::string> Reloader::socket_hosts(const Config& next) const {
  std::vector<std::string> hosts = listener_set_.hosts_to_resolve(next.listeners);
  const std::string& admin_host = next.admin.address.host;
  if (moves_admin(next) && !parse_ip(admin_host)) hosts.push_back(admin_host);
  return hosts;
}

/// Where logs are to be written from now on.
LogPaths Reloader::new_logs(const Config& next) const {
  LogPaths paths;
  if (config_ == nullptr) return paths;
  if (process_.access_log != nullptr && next.access_log.path != config_->access_log.path)
    paths.access_log = next.access_log.path;
  if (process_.usage_log != nullptr && next.usage.path != config_->usage.path)
    paths.usage = next.usage.path;
  return paths;
}

Task<PreparedReload> Reloader::prepare(ReadConfig read) {
  auto check = [read = std::move(read), file = file_, active = active_file(),
                environment = process_.environment] {
    return check_file(read(), file, active, environment);
  };
  CheckedFile checked = co_await preparation_.run(std::move(check));
  PreparedReload reload{.file = std::move(checked), .change = {}};
  if (!reload.file.problems.empty()) co_return reload;
  if (!reload.file.takeover.empty()) {
    std::vector<std::string> unchecked;
    co_await check_takeover_and_sockets(reload.file, {}, unchecked);
    co_return reload;
  }

  const std::shared_ptr<const Config> next = reload.file.config;
  const auto refused = [&reload](std::string path, Error& error) {
    reload.file.refuse({.path = std::move(path), .message = std::move(error.detail)});
    return std::move(reload);
  };
  const auto effective = co_await find_backends(next);
  co_await resolve_hosts(effective, max_dns_wait);
  PreparedChange change{.config = next,
                        .effective = effective,
                        .hash = reload.file.hash,
                        .changes = reload.file.changes,
                        .variables = reload.file.variables};
  change.weights =
      config_ == nullptr ? overrides_.weights() : overrides_.weights_for(*effective, *effective_);
  auto build = [effective, active = pool_set_,
                inputs = build_inputs(*effective, change.weights, true),
                hosts = socket_hosts(*next), logs = new_logs(*next)] {
    return build_parts(*effective, inputs, active.get(), hosts, logs);
  };
  BuiltParts parts = co_await building_thread().run(std::move(build));
  if (!parts.pool_set) co_return refused("", parts.pool_set.error());
  change.pool_set = std::move(*parts.pool_set);
  if (parts.keys.table == nullptr) {  // the file of keys has changed since it was checked
    const FileProblem& first = parts.keys.problems.front();
    reload.file.refuse({.path = "auth.keys.file", .message = text_of(first, *next)});
    co_return reload;
  }
  change.keys = std::move(parts.keys.table);
  change.key_file = parts.key_file;
  if (!parts.admin_tls) co_return refused("admin.tls", parts.admin_tls.error());
  change.admin_tls = std::move(*parts.admin_tls);
  if (Error* const error = adopt(parts.access_log, change.access_log))
    co_return refused("access_log.path", *error);
  if (Error* const error = adopt(parts.usage_log, change.usage_log))
    co_return refused("usage.path", *error);
  auto admin_listener = open_admin(*next, parts.listener_hosts);
  if (!admin_listener) co_return refused("admin.address", admin_listener.error());
  change.admin_listener = std::move(*admin_listener);
  std::size_t reached = 0;
  auto listeners = listener_set_.prepare(next->listeners, parts.listener_hosts, reached);
  if (!listeners) co_return refused(path_of_listener(*next, reached), listeners.error());
  change.listeners.emplace(std::move(*listeners));
  reload.change.emplace(std::move(change));
  co_return reload;
}

/// Keeps following the sources of the active configuration, which stays if `next` is rejected.
Task<std::shared_ptr<const Config>> Reloader::find_backends(std::shared_ptr<const Config> next) {
  discovery_.follow(*next);
  co_await discovery_.listed(next, process_.loop.read_clock() + max_discovery_wait);
  co_return with_found(next, discovery_.found(*next));
}

/// Keeps resolving the hosts of the active configuration, which stays if `next` is rejected.
Task<void> Reloader::resolve_hosts(std::shared_ptr<const Config> next, Duration max_wait) {
  auto hosts = hosts_of(*next);
  if (effective_ != nullptr) hosts.merge(hosts_of(*effective_));
  dns_cache_.set_hosts(hosts);
  co_await dns_cache_.resolved(process_.loop.read_clock() + max_wait);
}

/// The next pools of a scheduler join it, under its lock.
PreparationThread& Reloader::building_thread() {
  const auto has_scheduler = [](const PoolSet::PoolEntry& entry) {
    return entry.state->config().picker.has_scheduler();
  };
  const bool locks = pool_set_ != nullptr && std::ranges::any_of(pool_set_->pools(), has_scheduler);
  return locks ? locking_thread() : preparation_;
}

/// Builds the active configuration again, with other weights, addresses or backends. Certificates
/// and keys are not read again: their files may be half written at this moment.
Task<Result<PreparedChange>> Reloader::prepare_running(OperatorOverrides::Weights weights) {
  const auto effective = with_found(config_, discovery_.found(*config_));
  co_await resolve_hosts(effective, max_update_dns_wait);
  PreparedChange change{.config = config_, .effective = effective, .weights = std::move(weights)};
  auto build = [effective, active = pool_set_,
                inputs = build_inputs(*effective, change.weights, false)] {
    return build_parts(*effective, inputs, active.get(), {}, {});
  };
  BuiltParts parts = co_await building_thread().run(std::move(build));
  if (!parts.pool_set) co_return std::move(parts.pool_set.error());
  change.pool_set = std::move(*parts.pool_set);
  co_return change;
}

/// Copies everything: the preparation thread reads the inputs while the control loop runs on.
BuildInputs Reloader::build_inputs(const Config& config, const OperatorOverrides::Weights& weights,
                                   bool reload_files) {
  std::unordered_map<std::string, std::vector<Endpoint>> known;
  for (const std::string& host : hosts_of(config)) {
    if (!parse_ip(host)) known.emplace(host, dns_cache_.find({.host = host}));
  }
  auto find = [known = std::move(known)](const Address& address) {
    std::vector<Endpoint> endpoints;
    if (const auto name = known.find(address.host); name != known.end()) {
      endpoints = name->second;
    } else if (auto literal = resolve(address.host, address.port)) {
      endpoints = std::move(*literal);
    }
    for (Endpoint& each : endpoints) each.set_port(address.port);
    return endpoints;
  };
  OperatorOverrides::Drained drained = overrides_.drained();
  if (pool_set_ != nullptr) {
    // An operator may undrain a backend while the preparation thread builds.
    overrides_.record_drained(*pool_set_, *effective_);
    drained = overrides_.drained_outside(*pool_set_);
  }
  return {.find = std::move(find),
          .weights = weights,
          .drained = std::move(drained),
          .ids = overrides_.ids(),
          .reload_files = reload_files};
}

// ---- commit -----------------------------------------------------------------------------------

/// Where no more threads are allowed, workers may wait a little, which is better than no change.
PreparationThread& Reloader::locking_thread() {
  if (!locking_) {
    try {
      locking_.emplace(process_.loop, "prep-schedulers");
    } catch (const std::system_error& error) {
      log::limits.warning(std::string("cannot start a thread: ") + error.what());
      return preparation_;
    }
  }
  return *locking_;
}

// Long: what changes, in the order in which it may.
Task<void> Reloader::commit(PreparedChange change, Duration check_wait) {
  preparation_.lower_priority();
  if (config_ != nullptr && config_->dns.servers != change.config->dns.servers)
    dns_cache_.set_servers(change.config->dns.servers);
  adopt_config(change);
  const auto former = std::exchange(pool_set_, std::move(change.pool_set));
  adopt_issuers();
  const Instant key_set_deadline = process_.loop.read_clock() + max_key_set_wait;
  overrides_.set_weights(std::move(change.weights));
  process_.loop.set_busy_polling(process_.may_busy_poll && config_->busy_polling);
  std::vector<ListenerAssignment> assignments;
  if (change.listeners) {
    assignments = listener_set_.commit(std::move(*change.listeners));
    close_unused_sockets();
  }
  if (change.access_log) process_.access_log->switch_to(std::move(*change.access_log));
  if (change.usage_log) process_.usage_log->switch_to(std::move(*change.usage_log));
  if (!change.hash.empty()) apply_log_config(config_->log);
  if (process_.trace_exporter != nullptr) process_.trace_exporter->apply(config_->tracing);
  if (process_.usage_sender != nullptr) process_.usage_sender->apply(config_->usage);
  dns_cache_.set_ttl_limits(config_->dns.min_ttl, config_->dns.max_ttl);
  pool_set_->activate();
  if (former != nullptr) former->leave(*pool_set_);
  process_.status.update([&](RuntimeStatus& status) {
    status.config = config_;
    status.pool_set = pool_set_;
    if (change.hash.empty()) return;
    status.variables = variables_;
    status.last_changes = std::move(change.changes);
    status.config_hash = change.hash;
    status.loaded_at = std::chrono::system_clock::now();
    ++status.reloads;
    status.admin_tls = std::move(change.admin_tls);
    status.reload_problems.clear();
  });
  if (change.admin_listener.get() >= 0) process_.move_admin(change.admin_listener.take());
  const bool takes_over = !restored_schedulers_.engines.empty();
  SavedState restored = std::exchange(restored_schedulers_, {});
  SavedState restored_pins{.sessions = std::exchange(restored.sessions, {})};
  // Before the first report of an engine, which tells whether it has restarted since.
  restore_schedulers(std::move(restored), *pool_set_, process_.loop.read_clock());
  tick_pools();
  // A new backend is out of rotation until it has passed a check. If it is up, this takes little
  // longer than connecting.
  backend_monitor_.update(specs_to_monitor(), max_client_connections(*config_));
  co_await backend_monitor_.wait_for_first_results(process_.loop.read_clock() + check_wait);
  if (takes_over) forget_caches_of_absent(*pool_set_);
  // Before the first checks all backends are out of rotation, which releases sessions.
  restore_sessions(restored_pins, *pool_set_, process_.loop.read_clock());
  restore_backends(std::exchange(restored_, {}), *pool_set_, process_.loop.read_clock());
  apply_models();
  knows_replicas_ = true;
  plan_replicas(process_.loop.read_clock());
  co_await wait_for_key_sets(key_set_deadline);
  co_await process_.workers.apply(config_, pool_set_, std::move(assignments), keys_, issuers_);
  pool_set_->reopen_resolved();
  if (former == nullptr) {
    on_discovery_change();  // what was found since the lists were waited for
    co_return;
  }
  take_out_removed(*former, *pool_set_);
  auto released = former->release_tables(*pool_set_);
  if (released.empty()) co_return;
  auto release = [released = std::move(released)]() mutable {
    released.clear();
    release_free_pages();
  };
  co_await run_with_locks(std::move(release));
}

std::vector<MonitorSpec> Reloader::specs_to_monitor() const {
  std::vector<MonitorSpec> specs = monitor_specs(*config_, *pool_set_);
  for (MonitorSpec& spec : specs) {
    const auto known = restored_.find({spec.pool, spec.backend->id()});
    spec.was_down = known != restored_.end() && known->second.down;
    spec.lists_models = listed_pools_.contains(spec.pool);
  }
  return specs;
}

void Reloader::close_unused_sockets() {
  std::vector<InheritedSockets::Handle> used;
  for (const OpenListener& listener : listener_set_.open())
    used.insert(used.end(), listener.inherited.begin(), listener.inherited.end());
  for (const std::string& socket : process_.inherited.close_unused(used)) {
    log::listener.warning("closed inherited socket " + socket +
                          ": no listener has that name or that address");
  }
}

SavedState Reloader::saved_state() {
  SavedState state = overrides_.save(*pool_set_, *effective_);
  state.saved_at =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  state.observed =
      observe_backends(*pool_set_, *backend_monitor_.snapshot(), process_.loop.read_clock());
  return state;
}

void Reloader::restore(SavedState state, const Config& config) {
  const auto passed = std::chrono::system_clock::now() - state.saved_at;
  const bool any = !state.observed.empty();
  restored_ = aged(std::move(state.observed), std::chrono::duration_cast<Duration>(passed));
  if (any && restored_.empty())
    log::state.info("averages of the process before are too old to be used");
  restored_schedulers_.traffic = std::move(state.traffic);
  restored_schedulers_.engines = std::move(state.engines);
  restored_schedulers_.tokenizers = std::move(state.tokenizers);
  restored_schedulers_.sessions = std::move(state.sessions);
  restored_schedulers_.quotas = std::move(state.quotas);
  restored_schedulers_.ended_trials = std::move(state.ended_trials);
  age_schedulers(restored_schedulers_, std::chrono::duration_cast<Duration>(passed));
  overrides_.restore(std::move(state), config);
}

void Reloader::watch_active() {
  discovery_.follow_only(*config_);
  dns_cache_.set_hosts(hosts_of(*effective_));
}

// ---- changes ----------------------------------------------------------------------------------

Task<void> Reloader::serve() { return changes_.serve(); }

void Reloader::queue_reload() {
  changes_.post("reload", [this] {
    if (shutdown_) shutdown_->pass_on_reload();
    return shutdown_ ? Task<std::vector<Problem>>(std::vector<Problem>{}) : run_reload();
  });
}

void Reloader::queue_upgrade() {
  changes_.post("upgrade", [this] { return process_.take_over(Binary::installed); });
}

Task<Result<Done>> Reloader::upgrade() {
  return changes_.run([this] { return process_.take_over(Binary::installed); });
}

/// Applies a file that a running process cannot apply. REQUIRES: the file has no mistakes.
Task<void> Reloader::take_over_for(CheckedFile& file) {
  log::reload.info(
      fmt::format("reload: {} cannot change in a running process: starting another one",
                  fmt::join(file.takeover, ", ")));
  auto done = co_await process_.take_over(Binary::running);
  if (done) {
    process_.status.update([](RuntimeStatus& status) { status.reload_problems.clear(); });
    co_return;
  }
  file.refuse({.path = file.takeover.front(),
               .message = "no process could take over: " + done.error().detail});
}

Task<std::vector<Problem>> Reloader::reload() {
  return changes_.run([this] { return run_reload(); });
}

Task<std::vector<Problem>> Reloader::run_reload() {
  if (shutdown_) {
    std::vector<Problem> problems;
    problems.push_back(
        {.file = file_, .message = "not reloaded: " + shutdown_->reason, .help = shutdown_->help});
    co_return problems;
  }
  process_.notifier.reloading();
  const std::string before = process_.status.snapshot()->config_hash;
  ReadConfig read = [file = file_, environment = process_.environment] {
    return reread_config(file, environment);
  };
  auto reload = co_await prepare(std::move(read));
  CheckedFile& file = reload.file;
  if (!file.warnings.empty()) log::print(render_problems(file.warnings, file.text));
  if (reload.change) {
    co_await commit(std::move(*reload.change), max_new_backend_check_wait);
  }
  watch_active();
  if (file.problems.empty() && !file.takeover.empty()) co_await take_over_for(file);
  report(file);
  record_reload(file, before);
  ++rebuilds_;
  co_return std::move(file.problems);
}

void Reloader::record_reload(const CheckedFile& file, const std::string& before) const {
  if (process_.audit_log == nullptr) return;
  const bool refused = !file.problems.empty();
  process_.audit_log->record(
      "reload", {{"file", file_},
                 {"ok", !refused},
                 {"before", before},
                 {"after", file.hash},
                 {"changes", file.changes.size()},
                 {"problem", refused ? file.problems.front().message : std::string()}});
}

void Reloader::report(const CheckedFile& file) {
  const bool refused = !file.problems.empty();
  if (refused) {
    process_.status.update([&](RuntimeStatus& status) {
      ++status.rejected_reloads;
      status.reload_problems = file.problems;
    });
    std::string problems = render_problems(file.problems, file.text);
    problems.pop_back();  // the log adds the last line end
    log::reload.error("reload rejected; the previous configuration stays active:\n" + problems);
  } else {
    log::reload.info(fmt::format(
        "reloaded {}{}: {} change{}; {}", file_, file.takeover.empty() ? "" : " by another process",
        file.changes.size(), file.changes.size() == 1 ? "" : "s", summary()));
    const std::size_t logged = std::min(file.changes.size(), max_logged_changes);
    for (std::size_t i = 0; i < logged; ++i) log::reload.info("reload: " + file.changes[i]);
    if (logged < file.changes.size()) {
      log::reload.info(fmt::format("reload: and {} more changes", file.changes.size() - logged));
    }
  }
  if (shutdown_) return;
  process_.notifier.ready(refused ? "reload rejected: " + file.problems.front().message
                                  : summary());
}

/// Runs beside changes: it shares nothing with them but what is active.
Task<Result<ReloadPreview>> Reloader::preview(PreviewRequest request) {
  if (preview_in_progress_ || (previewing_ && previewing_->busy())) {
    co_return Error{.fault = Fault::queue_full,
                    .detail = "another preview is in progress; try again when it is done"};
  }
  ReloadPreview preview;
  if (shutdown_) {
    preview.problems.push_back(
        {.file = file_, .message = "not checked: " + shutdown_->reason, .help = shutdown_->help});
    co_return preview;
  }
  try {
    if (!previewing_) previewing_.emplace(process_.loop, "preview");
  } catch (const std::system_error& error) {
    co_return Error{.fault = Fault::queue_full,
                    .detail = std::string("cannot start a thread: ") + error.what()};
  }
  previewing_->lower_priority();
  struct InProgress {
    bool& flag;
    explicit InProgress(bool& own) : flag(own) { flag = true; }
    ~InProgress() { flag = false; }
  } const in_progress(preview_in_progress_);

  const auto unchecked = std::make_shared<std::vector<std::string>>();
  auto check = [unchecked, file = file_, active = active_file(), request,
                environment = process_.environment]() mutable {
    const bool other_files = request.authorized || request.text.empty();
    if (!other_files) {
      environment = without_other_files(std::move(environment), active.config, unchecked);
    }
    LoadResult loaded = request.text.empty() ? reread_config(file, environment)
                                             : read_config(request.text, file, environment);
    return check_file(std::move(loaded), file, active, environment);
  };
  CheckedFile checked = co_await previewing_->run(std::move(check));
  ++rebuilds_;
  preview.unchecked = std::move(*unchecked);
  if (checked.problems.empty())
    co_await check_takeover_and_sockets(checked, request.left, preview.unchecked);
  if (request.left.stop_requested()) {
    co_return Error{.fault = Fault::client_gone, .detail = "the client has left"};
  }
  preview.problems = std::move(checked.problems);
  preview.changes = std::move(checked.changes);
  preview.takeover = std::move(checked.takeover);
  for (std::string& each : preview.unchecked) each = checked.variables->hide(std::move(each));
  co_return preview;
}

/// Refuses a file for which no process can take over, or whose sockets could not be opened. Opens
/// none.
Task<void> Reloader::check_takeover_and_sockets(CheckedFile& file, std::stop_token left,
                                                std::vector<std::string>& unchecked) {
  if (!process_.takeover_obstacle.empty()) {
    for (const std::string& key : file.takeover) {
      file.refuse({.path = key,
                   .message = "cannot change while the daemon runs, and no other process can "
                              "take over: " +
                              process_.takeover_obstacle,
                   .help = "set it back, or restart"});
    }
    if (!file.problems.empty()) co_return;
  }
  const Config& next = *file.config;
  std::vector<std::string> hosts = socket_hosts(next);
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (next.listeners.size() > max_checked_listeners || hosts.size() > max_checked_hosts) {
    unchecked.emplace_back("whether the addresses of the listeners can be opened");
    co_return;
  }
  auto resolved = co_await look_up_listener_hosts(process_.loop, std::move(hosts), std::move(left));
  if (!resolved) co_return;
  const auto refuse = [&file](std::string path, Error& error) {
    file.refuse({.path = std::move(path), .message = std::move(error.detail)});
  };
  auto admin = check_admin(next, *resolved);
  if (!admin) co_return refuse("admin.address", admin.error());
  std::size_t reached = 0;
  auto listeners = listener_set_.check(next.listeners, *resolved, reached);
  if (!listeners) refuse(path_of_listener(next, reached), listeners.error());
}

Task<Result<Done>> Reloader::set_weight(std::string pool, std::string backend,
                                        std::uint32_t weight) {
  return changes_.run([=, this] { return run_set_weight(pool, backend, weight); });
}

Task<Result<Done>> Reloader::run_set_weight(std::string pool, std::string backend,
                                            std::uint32_t weight) {
  if (shutdown_) {
    co_return Error{.fault = Fault::draining, .detail = "not set: " + shutdown_->reason};
  }
  auto change = co_await prepare_running(overrides_.weights_with(pool, backend, weight));
  if (!change) co_return std::move(change.error());
  co_await commit(std::move(*change), max_new_backend_check_wait);
  watch_active();
  co_return Done{};
}

void Reloader::on_dns_change() {
  if (dns_update_scheduled_) return;
  dns_update_scheduled_ = true;
  process_.loop.spawn(queue_dns_update_at(last_dns_update_ + min_dns_update_interval));
}

/// True if a server of this host passes its health checks. Without checks none does.
bool Reloader::passes_checks(const std::string& host) const {
  if (pool_set_ == nullptr) return false;
  const auto monitored = backend_monitor_.snapshot();
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) {
    for (std::size_t i = 0; i < pool.backends.size(); ++i) {
      if (pool.backends[i].config.address.host != host) continue;
      const BackendStatus* const status =
          monitored->find(pool.state->config().name, pool.state->backends()[i]->id());
      if (status != nullptr && status->health.state == HealthState::up) return true;
    }
  }
  return false;
}

Task<void> Reloader::queue_dns_update_at(Instant when) {
  co_await process_.loop.sleep_until(when);
  dns_update_scheduled_ = false;
  last_dns_update_ = process_.loop.now();
  changes_.post("dns update", [this] { return run_dns_update(); });
}

Task<void> Reloader::run_dns_update() {
  auto change = co_await prepare_running(overrides_.weights());
  if (!change) {
    log::dns.error("DNS update not applied: " + change.error().detail);
    co_return;
  }
  co_await commit(std::move(*change), max_new_backend_check_wait);
  watch_active();
  log::dns.info("DNS update applied: " + summary());
  ++rebuilds_;
}

/// Sources look up names and variables as the process does.
DiscoveryEnvironment Reloader::discovery_environment() {
  return {.resolve = [this](std::string host,
                            std::uint16_t port) { return resolve_host(std::move(host), port); },
          .find_services = [this](std::string name) { return find_services(std::move(name)); },
          .variable =
              [this](const std::string& name) {
                const auto& look = process_.environment.variable;
                return look ? look(name) : std::nullopt;
              }};
}

void Reloader::on_discovery_change() {
  if (config_ == nullptr || discovery_update_scheduled_) return;
  discovery_update_scheduled_ = true;
  const Instant gathered = process_.loop.now() + discovery_batch_time;
  process_.loop.spawn(queue_discovery_update_at(
      std::max(gathered, last_discovery_update_ + min_discovery_update_interval)));
}

Task<void> Reloader::queue_discovery_update_at(Instant when) {
  co_await process_.loop.sleep_until(when);
  discovery_update_scheduled_ = false;
  last_discovery_update_ = process_.loop.now();
  changes_.post("discovery update", [this] { return run_discovery_update(); });
}

/// Does nothing where another change has brought the backends already, or they are as they were.
Task<void> Reloader::run_discovery_update() {
  const auto next = with_found(config_, discovery_.found(*config_));
  if (*next == *effective_) co_return;
  // Those that are gone lose their weight: another server may come at the same address.
  auto weights = overrides_.weights_for(*next, *effective_);
  auto change = co_await prepare_running(std::move(weights));
  if (!change) {
    log::discovery.error("the backends that were found are not used: " + change.error().detail);
    co_return;
  }
  co_await commit(std::move(*change), max_new_backend_check_wait);
  watch_active();
  log::discovery.info("backends updated: " + summary());
  ++rebuilds_;
}

// ---- the active configuration -----------------------------------------------------------------

/// Has the keys of the issuers fetched that the active configuration names.
void Reloader::adopt_issuers() {
  const auto issuers = config_->auth ? config_->auth->jwt : std::vector<TokenIssuerConfig>();
  std::set<std::string> urls;
  for (const TokenIssuerConfig& each : issuers) {
    if (!each.fetches_keys()) continue;
    urls.insert(each.jwks);
    if (!fetched_urls_.contains(each.jwks)) untried_sets_.insert(each.jwks);
  }
  fetched_urls_ = urls;
  std::erase_if(untried_sets_, [&](const std::string& url) { return !urls.contains(url); });
  std::erase_if(key_sets_, [&](const auto& each) { return !urls.contains(each.first); });
  issuers_ = pool_set_->token_issuers();
  if (issuers_ != nullptr) issuers_ = issuers_->with(key_sets_);
  if (process_.key_sets == nullptr) {
    untried_sets_.clear();
  } else {
    process_.key_sets->apply(issuers);
  }
}

Task<void> Reloader::wait_for_key_sets(Instant deadline) {
  while (!untried_sets_.empty() && process_.loop.read_clock() < deadline) {
    co_await set_tried_.wait(deadline);
  }
  untried_sets_.clear();
}

void Reloader::adopt_key_set(const std::string& url, std::shared_ptr<const JwkSet> keys) {
  untried_sets_.erase(url);
  set_tried_.raise();
  if (keys == nullptr || !fetched_urls_.contains(url)) return;
  if (process_.audit_log != nullptr) {
    process_.audit_log->record(
        "issuer_keys", {{"url", url.substr(0, url.find('?'))}, {"keys", keys->keys().size()}});
  }
  key_sets_[url] = std::move(keys);
  if (issuers_ == nullptr) return;
  issuers_ = issuers_->with(key_sets_);
  process_.workers.apply(issuers_);
}

void Reloader::tick_pools() {
  const Instant now = process_.loop.read_clock();
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) pool.state->tick(now);
  plan_replicas(now);
  end_drains();
  publish_discovery();
  apply_models();
  if (issuers_ != nullptr && process_.key_sets != nullptr) {
    for (const std::string& url : issuers_->take_wanted()) process_.key_sets->fetch_soon(url);
  }
  if (key_file_.has_changed(now)) changes_.post("API keys", [this] { return run_read_keys(); });
}

/// Plans nothing before the first checks: all backends are out of rotation, and would be removed.
void Reloader::plan_replicas(Instant now) {
  if (!autoscaler_ || !knows_replicas_) return;
  std::vector<const PoolState*> scaled;
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) {
    if (pool.state->config().scaling) scaled.push_back(pool.state.get());
  }
  autoscaler_->tick(scaled, now);
}

/// Takes the configuration out of the change, and its API keys if they were read.
void Reloader::adopt_config(PreparedChange& change) {
  if (config_ != change.config) listed_pools_ = pools_to_list(*change.config);
  config_ = std::move(change.config);
  effective_ = std::move(change.effective);
  if (change.variables != nullptr) variables_ = std::move(change.variables);
  if (change.keys == nullptr) return;
  keys_ = std::move(change.keys);
  key_file_.follow(key_file_of(*config_), change.key_file);
  process_.status.update([&](RuntimeStatus& status) {
    status.key_file_problem.clear();
    status.api_keys.reset();
    if (config_->auth) status.api_keys = keys_->size();
  });
}

/// A file that cannot be read, or has a mistake, changes nothing.
Task<void> Reloader::run_read_keys() {
  auto read_all = [config = config_] { return read_api_keys(*config); };
  KeyTable::Built read = co_await preparation_.run(std::move(read_all));
  const bool is_good = read.table != nullptr;
  std::string problem = is_good ? std::string() : text_of(read.problems.front(), *config_);
  if (is_good) {
    keys_ = std::move(read.table);
    process_.workers.apply(keys_);
    log::reload.info(
        fmt::format("read {} again: {} API keys", key_file_of(*config_), keys_->size()));
  } else {
    log::reload.error("the API keys stay as they are: " + problem);
  }
  if (process_.audit_log != nullptr) {
    process_.audit_log->record("api_keys", {{"file", key_file_of(*config_)},
                                            {"ok", is_good},
                                            {"keys", keys_->size()},
                                            {"problem", problem}});
  }
  process_.status.update([&](RuntimeStatus& status) {
    status.key_file_problem = std::move(problem);
    if (is_good) status.api_keys = keys_->size();
  });
}

void Reloader::set_drain_end(const std::string& pool, const std::string& backend,
                             std::optional<Time> end) {
  overrides_.set_drain_end(pool, backend, end);
  publish_drain_ends();
}

void Reloader::end_drains() {
  for (const auto& [pool, backend] :
       overrides_.end_drains(*pool_set_, std::chrono::system_clock::now())) {
    log::admin.record(fmt::format("pool {}: backend {}: undrained, the time of its drain is over",
                                  pool, backend));
  }
  publish_drain_ends();
}

void Reloader::publish_drain_ends() {
  if (process_.status.snapshot()->drain_ends == overrides_.drain_ends()) return;
  process_.status.update(
      [this](RuntimeStatus& status) { status.drain_ends = overrides_.drain_ends(); });
}

void Reloader::publish_discovery() {
  std::vector<DiscoveryStatus> statuses = discovery_.statuses(*config_);
  if (process_.status.snapshot()->discovery == statuses) return;
  process_.status.update(
      [&statuses](RuntimeStatus& status) { status.discovery = std::move(statuses); });
}

void Reloader::apply_models() {
  auto changed =
      model_catalog_.update(*config_, *pool_set_, *backend_monitor_.snapshot(), listed_pools_);
  if (changed != nullptr) process_.workers.apply(changed);
}

std::string Reloader::summary() const {
  const Instant now = Clock::now();
  std::size_t up = 0;
  std::size_t all = 0;
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) {
    up += pool.state->available(now);
    all += pool.state->backends().size();
  }
  const std::size_t pools = pool_set_->pools().size();
  return fmt::format("serving {} pool{}, {} of {} backends up", pools, pools == 1 ? "" : "s", up,
                     all);
}

Task<Result<Resolver::ServiceAnswer>> Reloader::find_services(std::string name) {
  const std::shared_ptr<Resolver> resolver = dns_cache_.resolver();
  auto answer = co_await resolver->find_services(std::move(name));
  co_return answer;
}

/// Resolves hosts that are not backends: GPU exporters, and servers with lists of backends.
Task<Result<std::vector<Endpoint>>> Reloader::resolve_host(std::string host, std::uint16_t port) {
  const std::shared_ptr<Resolver> resolver = dns_cache_.resolver();
  auto answer = co_await resolver->lookup(host, port);
  if (!answer) co_return std::move(answer.error());
  if (answer->addresses.empty()) {
    co_return Error{.fault = Fault::connect_failed,
                    .side = Side::backend,
                    .detail = "'" + host + "' has no address"};
  }
  co_return std::move(answer->addresses);
}

}  // namespace evenkeel
