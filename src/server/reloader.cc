#include "server/reloader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/config/changes.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {
namespace {

/// Between two changes because of DNS answers. Each makes a plan that lives as long as its longest
/// request: names whose addresses change with every answer must not pile up plans.
constexpr Duration min_dns_update_interval = std::chrono::seconds(1);
/// For name servers; hosts that are found later join later.
constexpr Duration max_dns_wait = std::chrono::seconds(3);
/// For the first check of backends that a change adds.
constexpr Duration max_new_backend_check_wait = std::chrono::milliseconds(100);
/// More lines than anyone reads: a new file may change thousands of backends.
constexpr std::size_t max_logged_changes = 50;

std::uint64_t seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

std::set<std::string> hosts_of(const Config& config) {
  std::set<std::string> hosts;
  for (const PoolConfig& pool : config.pools) {
    for (const BackendConfig& backend : pool.backends) hosts.insert(backend.address.host);
  }
  return hosts;
}

/// Over all listeners; 0: unlimited.
std::size_t max_client_connections(const Config& config) {
  std::size_t sum = 0;
  for (const ListenerConfig& listener : config.listeners) sum += listener.limits.max_connections;
  return sum;
}

/// Only a regular file: reading a pipe or a device would block until its writer ends.
LoadResult reread_config(const std::string& file, const Environment& environment) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(file, unknown)) return load_config(file, environment);
  LoadResult refused;
  refused.problems.push_back(
      {.file = file,
       .message = unknown ? "cannot be read: " + unknown.message() : "is not a file",
       .help = "a reload reads the file that the daemon was started with"});
  return refused;
}

}  // namespace

Reloader::Reloader(Process process, std::string file, unsigned workers, const DnsConfig& dns)
    : process_(std::move(process)),
      file_(std::move(file)),
      listener_set_(workers, process_.inherited),
      dns_cache_(process_.loop, dns, seed(), [this] { on_dns_change(); }),
      backend_monitor_(process_.loop, seed(),
                       [this](std::string host, std::uint16_t port) {
                         return resolve_host(std::move(host), port);
                       }),
      changes_(process_.loop) {}

// ---- prepare ----------------------------------------------------------------------------------

Task<PreparedReload> Reloader::prepare(LoadResult loaded, Sockets sockets) {
  PreparedReload reload{.problems = std::move(loaded.problems), .text = std::move(loaded.text)};
  if (!reload.problems.empty()) co_return reload;
  const auto next = std::make_shared<const Config>(std::move(loaded.config));
  if (config_ != nullptr) {
    reload.changes = describe_changes(*config_, *next);
    reload.problems = restart_only_changes(*config_, *next, file_);
    if (!reload.problems.empty()) co_return reload;
  }
  const auto refuse = [&](const char* path, Error error) {
    reload.problems.push_back({.file = file_, .path = path, .message = std::move(error.detail)});
  };

  co_await resolve_hosts(*next);
  PreparedChange change{.config = next, .hash = std::move(loaded.hash)};
  if (config_ != nullptr) change.weights = overrides_.weights_for(*next, *config_);
  auto pool_set = PoolSet::build(*next, build_inputs(change.weights, true), pool_set_.get());
  if (!pool_set) {
    refuse("", std::move(pool_set.error()));
    co_return reload;
  }
  change.pool_set = std::move(*pool_set);
  if (sockets == Sockets::check) {
    auto checked = listener_set_.check(next->listeners);
    if (!checked) refuse("listeners", std::move(checked.error()));
    co_return reload;
  }
  auto listeners = listener_set_.prepare(next->listeners);
  if (!listeners) {
    refuse("listeners", std::move(listeners.error()));
    co_return reload;
  }
  change.listeners.emplace(std::move(*listeners));
  reload.change.emplace(std::move(change));
  co_return reload;
}

/// Also those of the active configuration: it stays if the next one is refused.
Task<void> Reloader::resolve_hosts(const Config& next) {
  auto hosts = hosts_of(next);
  if (config_ != nullptr) hosts.merge(hosts_of(*config_));
  dns_cache_.set_hosts(hosts);
  co_await dns_cache_.resolved(process_.loop.read_clock() + max_dns_wait);
}

/// What runs, built again with other weights or addresses. Certificates and keys stay as they were
/// read: their files may be half written just now.
Result<PreparedChange> Reloader::prepare_running(OperatorOverrides::Weights weights) {
  auto pool_set = PoolSet::build(*config_, build_inputs(weights, false), pool_set_.get());
  if (!pool_set) return std::move(pool_set.error());
  return PreparedChange{
      .config = config_, .pool_set = std::move(*pool_set), .weights = std::move(weights)};
}

BuildInputs Reloader::build_inputs(const OperatorOverrides::Weights& weights, bool reload_files) {
  if (pool_set_ != nullptr) overrides_.record_drained(*pool_set_, *config_);
  return {.find = [this](const Address& address) { return dns_cache_.find(address); },
          .weights = weights,
          .drained = overrides_.drained(),
          .reload_files = reload_files};
}

// ---- commit -----------------------------------------------------------------------------------

Task<void> Reloader::commit(PreparedChange change, Duration check_wait) {
  config_ = std::move(change.config);
  pool_set_ = std::move(change.pool_set);
  overrides_.set_weights(std::move(change.weights));
  std::vector<ListenerAssignment> assignments;
  if (change.listeners) {
    assignments = listener_set_.commit(std::move(*change.listeners));
    close_unused_sockets();
  }
  dns_cache_.set_ttl_limits(config_->dns.min_ttl, config_->dns.max_ttl);
  pool_set_->activate();
  process_.status.update([&](RuntimeStatus& status) {
    status.config = config_;
    status.pool_set = pool_set_;
    if (change.hash.empty()) return;
    status.config_hash = change.hash;
    status.loaded_at = std::chrono::system_clock::now();
    status.reload_problems.clear();
  });
  tick_pools();
  // A backend that is new is out of rotation until it has passed a check; where it is up, that
  // takes no longer than a connection.
  backend_monitor_.update(monitor_specs(*config_, *pool_set_), max_client_connections(*config_));
  co_await backend_monitor_.wait_for_first_results(process_.loop.read_clock() + check_wait);
  co_await process_.workers.apply(config_, pool_set_, std::move(assignments));
  pool_set_->reopen_resolved();
}

void Reloader::close_unused_sockets() {
  std::vector<InheritedSockets::Handle> used;
  for (const OpenListener& listener : listener_set_.open())
    used.insert(used.end(), listener.inherited.begin(), listener.inherited.end());
  for (const std::string& socket : process_.inherited.close_unused(used)) {
    log::warning("closed inherited socket " + socket +
                 ": no listener has that name or that address");
  }
}

void Reloader::watch_active_hosts() { dns_cache_.set_hosts(hosts_of(*config_)); }

// ---- changes ----------------------------------------------------------------------------------

Task<void> Reloader::serve() { return changes_.serve(); }

void Reloader::queue_reload() {
  changes_.post("reload", [this] { return run_reload(std::make_shared<std::vector<Problem>>()); });
}

Task<std::vector<Problem>> Reloader::reload() {
  const auto problems = std::make_shared<std::vector<Problem>>();
  ChangeQueue::Change change = [this, problems] { return run_reload(problems); };
  co_await changes_.run(std::move(change));
  co_return std::move(*problems);
}

Task<void> Reloader::run_reload(std::shared_ptr<std::vector<Problem>> problems) {
  if (shutting_down_) {
    problems->push_back({.file = file_,
                         .message = "not reloaded: the daemon is shutting down",
                         .help = "start it again"});
    co_return;
  }
  process_.notifier.reloading();
  LoadResult loaded = reread_config(file_, process_.environment);
  if (!loaded.warnings.empty()) log::print(render_problems(loaded.warnings, loaded.text));
  auto reload = co_await prepare(std::move(loaded), Sockets::open);
  if (reload.change) {
    co_await commit(std::move(*reload.change), max_new_backend_check_wait);
  }
  watch_active_hosts();
  report(reload);
  *problems = std::move(reload.problems);
}

void Reloader::report(const PreparedReload& reload) {
  const bool refused = !reload.problems.empty();
  if (refused) {
    process_.status.update(
        [&](RuntimeStatus& status) { status.reload_problems = reload.problems; });
    std::string problems = render_problems(reload.problems, reload.text);
    problems.pop_back();  // the last line end is the log's
    log::error("reload rejected; the previous configuration stays active:\n" + problems);
  } else {
    log::info(fmt::format("reloaded {}: {} change{}; {}", file_, reload.changes.size(),
                          reload.changes.size() == 1 ? "" : "s", summary()));
    const std::size_t logged = std::min(reload.changes.size(), max_logged_changes);
    for (std::size_t i = 0; i < logged; ++i) log::info("reload: " + reload.changes[i]);
    if (logged < reload.changes.size()) {
      log::info(fmt::format("reload: and {} more changes", reload.changes.size() - logged));
    }
  }
  if (shutting_down_) return;
  process_.notifier.ready(refused ? "reload rejected: " + reload.problems.front().message
                                  : summary());
}

Task<ReloadPreview> Reloader::preview(std::string text) {
  const auto preview = std::make_shared<ReloadPreview>();
  // Weak: a preview whose client has left is not made.
  std::weak_ptr<ReloadPreview> waiting = preview;
  ChangeQueue::Change change = [this, waiting, text = std::move(text)] {
    return run_preview(text, waiting);
  };
  co_await changes_.run(std::move(change));
  co_return std::move(*preview);
}

Task<void> Reloader::run_preview(std::string text, std::weak_ptr<ReloadPreview> waiting) {
  if (waiting.expired()) co_return;
  if (shutting_down_) {
    waiting.lock()->problems.push_back(
        {.file = file_, .message = "not checked: the daemon is shutting down"});
    co_return;
  }
  LoadResult loaded = text.empty() ? reread_config(file_, process_.environment)
                                   : read_config(text, file_, process_.environment);
  auto reload = co_await prepare(std::move(loaded), Sockets::check);
  watch_active_hosts();
  const auto preview = waiting.lock();
  if (preview == nullptr) co_return;
  preview->problems = std::move(reload.problems);
  preview->changes = std::move(reload.changes);
}

Task<Result<Done>> Reloader::set_weight(std::string pool, std::string backend,
                                        std::uint32_t weight) {
  const auto error = std::make_shared<std::optional<Error>>();
  ChangeQueue::Change change = [=, this] { return run_set_weight(pool, backend, weight, error); };
  co_await changes_.run(std::move(change));
  if (*error) co_return std::move(**error);
  co_return Done{};
}

Task<void> Reloader::run_set_weight(std::string pool, std::string backend, std::uint32_t weight,
                                    std::shared_ptr<std::optional<Error>> error) {
  auto change = prepare_running(overrides_.weights_with(pool, backend, weight));
  if (!change) {
    *error = std::move(change.error());
    co_return;
  }
  co_await commit(std::move(*change), max_new_backend_check_wait);
}

void Reloader::on_dns_change() {
  if (dns_update_scheduled_) return;
  dns_update_scheduled_ = true;
  process_.loop.spawn(queue_dns_update_at(last_dns_update_ + min_dns_update_interval));
}

Task<void> Reloader::queue_dns_update_at(Instant when) {
  co_await process_.loop.sleep_until(when);
  dns_update_scheduled_ = false;
  last_dns_update_ = process_.loop.now();
  changes_.post("dns update", [this] { return run_dns_update(); });
}

Task<void> Reloader::run_dns_update() {
  auto change = prepare_running(overrides_.weights());
  if (!change) {
    log::error("DNS update not applied: " + change.error().detail);
    co_return;
  }
  co_await commit(std::move(*change), max_new_backend_check_wait);
  log::info("DNS update applied: " + summary());
}

// ---- what runs --------------------------------------------------------------------------------

void Reloader::tick_pools() {
  const Instant now = process_.loop.read_clock();
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) pool.state->tick(now);
}

std::string Reloader::summary() const {
  const Instant now = Clock::now();
  std::size_t up = 0;
  std::size_t all = 0;
  for (const PoolSet::PoolEntry& pool : pool_set_->pools()) {
    up += pool.state->available(now);
    all += pool.state->backends().size();
  }
  return fmt::format("serving {} pools, {} of {} backends up", pool_set_->pools().size(), up, all);
}

/// For hosts that are not backends: exporters of GPU metrics.
Task<Result<std::vector<Endpoint>>> Reloader::resolve_host(std::string host, std::uint16_t port) {
  auto answer = co_await dns_cache_.resolver().lookup(host, port);
  if (!answer) co_return std::move(answer.error());
  if (answer->addresses.empty()) {
    co_return Error{.fault = Fault::connect_failed,
                    .side = Side::backend,
                    .detail = "'" + host + "' has no address"};
  }
  co_return std::move(answer->addresses);
}

}  // namespace evenkeel
