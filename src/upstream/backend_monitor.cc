#include "evenkeel/upstream/backend_monitor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "evenkeel/base/log.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/detector.h"

namespace evenkeel {
namespace {

/// How soon it is seen that there is reason to check a backend at once.
constexpr Duration trigger_check_interval = std::chrono::milliseconds(100);

/// Between two rounds of questions to a server of which they have not shown what it is.
constexpr Duration max_detection_interval = std::chrono::minutes(1);

/// Rounds in a row that a server leaves half answered before it is taken for one that shows
/// nothing.
constexpr unsigned max_inconclusive_rounds = 3;

/// Of lines that say the same.
constexpr Duration warning_interval = std::chrono::minutes(1);

std::size_t descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  return limit.rlim_cur;
}

/// Connections that the listeners of a file may hold at most; 0: no limit.
std::size_t total_max_connections(const Config& config) {
  std::size_t total = 0;
  for (const ListenerConfig& listener : config.listeners) total += listener.limits.max_connections;
  return total;
}

std::string_view to_string(HealthState state) {
  switch (state) {
    case HealthState::unchecked: return "unchecked";
    case HealthState::starting: return "starting";
    case HealthState::up: return "up";
    case HealthState::down: return "down";
  }
  return "down";
}

/// What is asked of a backend, and how it is reached.
struct MonitorSpec {
  BackendPtr backend;
  HealthCheckSpec health;  // its engine as the file has it
  MetricsPollSpec metrics;
  ServerAccess access;
};

MonitorSpec monitor_spec_for(const PoolConfig& pool, const PoolSet::PoolEntry& pool_entry,
                             std::size_t index, bool keeps_links) {
  const PoolSet::ResolvedBackend& resolved = pool_entry.backends[index];
  return {.backend = pool_entry.state->backends()[index],
          .health = {.config = pool.health,
                     .engine = pool.engine,
                     .models = pool.models,
                     .protocol = pool.protocol,
                     .engine_is_auto = pool.engine == "auto"},
          .metrics = {.config = pool.metrics,
                      .engine = pool.engine,
                      .url = resolved.config.metrics,
                      .gpus = resolved.config.gpus},
          .access = {.addresses = resolved.addresses,
                     .authority = to_string(resolved.config.address),
                     .authorization = resolved.authorization,
                     .links = link_options_of(pool, resolved.config, pool_entry.tls),
                     .keeps_links = keeps_links}};
}

}  // namespace

/// Thread: the control loop's.
class BackendMonitor::MonitoredBackend {
 public:
  /// `settled` is raised after the first result.
  MonitoredBackend(Loop& loop, std::uint64_t seed, std::string pool, MonitorSpec spec,
                   GpuExporters& exporters, Signal& has_first_result);

  /// As the constructor's, from now on. Nothing that was learned is lost.
  void update(MonitorSpec spec);
  /// Sees what gives reason to check at once.
  void check_triggers() {
    if (checker_ != nullptr) checker_->check_triggers();
  }
  bool has_first_result() const { return first_result_; }
  /// Questions so far that could not be asked, for want of something that is ours.
  std::uint64_t blocked_locally() const {
    return blocked_locally_ + (checker_ == nullptr ? 0 : checker_->record().blocked_locally);
  }
  const BackendStatus& status();

 private:
  /// Readings of its metrics, and what they were begun for.
  struct ActivePoller {
    MetricsPollSpec target_spec;
    ServerAccess access;
    const Load* load;
    std::unique_ptr<MetricsPoller> poller;
  };

  bool detects_engine() const { return spec_.health.engine == "auto"; }
  bool detection_running() const { return detection_.valid() && !detection_.ready(); }
  bool known() const { return identity_ && identity_->known(); }
  bool serves() const;
  void start_detection();
  Task<void> run_detection();
  Task<DetectionResult> ask(BackendClient& client);
  void accept_identity(EngineIdentity identity);
  void apply(bool serving) {
    apply_health_checker(serving);
    apply_metrics_poller();
  }
  void apply_health_checker(bool serving);
  void apply_metrics_poller();
  void on_health_changed(const HealthRecord& record);
  void note_first_result();

  Loop& loop_;
  Rng rng_;
  MonitorSpec spec_;
  GpuExporters& exporters_;
  Signal& any_first_result_;
  BackendStatus status_;
  std::optional<EngineIdentity> identity_;
  std::unique_ptr<HealthChecker> checker_;
  std::optional<ActivePoller> active_poller_;
  bool first_result_ = false;
  std::uint64_t blocked_locally_ = 0;
  Duration detection_interval_{};
  Signal wake_now_;  // to the next round
  Task<void> detection_;
};

BackendMonitor::MonitoredBackend::MonitoredBackend(Loop& loop, std::uint64_t seed, std::string pool,
                                                   MonitorSpec spec, GpuExporters& exporters,
                                                   Signal& has_first_result)
    : loop_(loop),
      rng_(seed),
      spec_(std::move(spec)),
      exporters_(exporters),
      any_first_result_(has_first_result),
      wake_now_(loop) {
  status_.pool = std::move(pool);
  status_.backend = spec_.backend->id();
  status_.health.since = std::chrono::system_clock::now();
  apply(false);
  if (detects_engine()) start_detection();
}

void BackendMonitor::MonitoredBackend::update(MonitorSpec spec) {
  const bool same_engine = spec.health.engine == spec_.health.engine;
  const bool was_detecting = detection_running();
  if (!same_engine) identity_.reset();
  if (!same_engine || spec.access != spec_.access) detection_.drop();
  spec_ = std::move(spec);
  apply(serves());
  if (detects_engine() && (was_detecting || !known())) start_detection();
}

/// It gets requests, as far as its health goes.
bool BackendMonitor::MonitoredBackend::serves() const {
  const Load& load = spec_.backend->load();
  return !load.is_out(OutOfRotation::starting) && !load.is_out(OutOfRotation::unhealthy);
}

const BackendStatus& BackendMonitor::MonitoredBackend::status() {
  if (checker_ != nullptr) status_.health = checker_->record();
  status_.engine = identity_ ? identity_->engine : spec_.health.engine;
  status_.models = status_.health.models;
  if (status_.models.empty() && identity_) status_.models = identity_->models;
  status_.poller = active_poller_ ? active_poller_->poller.get() : nullptr;
  return status_;
}

/// Has it checked as is known by now. `serving`: it gets requests already, and loses none
/// of them to a question that is still open.
void BackendMonitor::MonitoredBackend::apply_health_checker(bool serving) {
  HealthCheckSpec target_spec = spec_.health;
  if (identity_) {
    target_spec.engine = identity_->engine;
    target_spec.kserve = identity_->kserve;
  }
  if (resolved_check_kind(target_spec) != HealthCheckKind::off) {
    if (checker_ != nullptr) {
      checker_->update(std::move(target_spec), spec_.access, spec_.backend);
      return;
    }
    checker_ = std::make_unique<HealthChecker>(
        loop_, rng_(), std::move(target_spec), spec_.access, spec_.backend, serving,
        [this](const HealthRecord& record) { on_health_changed(record); });
    return;
  }
  checker_.reset();
  HealthRecord& record = status_.health;
  const bool waits =
      detects_engine() && !identity_ && spec_.health.config.check != HealthCheckKind::off;
  if (waits && !serving) {
    record.state = HealthState::starting;
    record.reason = "not known yet what it runs";
    spec_.backend->load().take_out(OutOfRotation::starting);
    return;
  }
  if (record.state != HealthState::unchecked) record.since = std::chrono::system_clock::now();
  record.state = HealthState::unchecked;
  record.reason.clear();
  spec_.backend->put_back(OutOfRotation::starting);
  spec_.backend->put_back(OutOfRotation::unhealthy);
  note_first_result();
}

/// Has its metrics read as is known by now; the reader goes on where nothing has changed for it.
void BackendMonitor::MonitoredBackend::apply_metrics_poller() {
  MetricsPollSpec target_spec = spec_.metrics;
  if (identity_) target_spec.engine = identity_->engine;
  const Load* load = &spec_.backend->load();
  if (active_poller_ && active_poller_->target_spec == target_spec &&
      active_poller_->access == spec_.access && active_poller_->load == load) {
    return;
  }
  active_poller_.reset();  // before the next begins: it unsays what it published
  if (!is_polled(target_spec)) return;
  auto poller =
      std::make_unique<MetricsPoller>(loop_, target_spec, spec_.access, spec_.backend, exporters_);
  active_poller_.emplace(
      ActivePoller{std::move(target_spec), spec_.access, load, std::move(poller)});
}

void BackendMonitor::MonitoredBackend::on_health_changed(const HealthRecord& record) {
  const std::string line =
      fmt::format("pool {}: {} is {}{}{}", status_.pool, status_.backend, to_string(record.state),
                  record.reason.empty() ? "" : ": ", record.reason);
  const bool expected = !first_result_ && record.state == HealthState::up;
  log::write(expected                            ? log::Level::debug
             : record.state == HealthState::down ? log::Level::warning
                                                 : log::Level::info,
             line);
  // Another server may come back in its place, and is asked when it is back.
  if (first_result_ && detects_engine() && (detection_running() || record.state != HealthState::up))
    start_detection();
  note_first_result();
}

void BackendMonitor::MonitoredBackend::note_first_result() {
  first_result_ = true;
  any_first_result_.raise();
}

/// A round of questions comes now, whether they have been asked so far or not.
void BackendMonitor::MonitoredBackend::start_detection() {
  detection_interval_ = Duration::zero();
  if (detection_running()) {
    wake_now_.raise();
  } else {
    detection_ = run_detection();
  }
}

/// Asks until it is known what the server is. One that shows nothing is taken as generic, and asked
/// again, less and less often: it may have been asked too soon, or stand in for the one to come.
Task<void> BackendMonitor::MonitoredBackend::run_detection() {
  BackendClient client(loop_, spec_.access);
  if (!spec_.access.keeps_links) {  // many at the same time would have no descriptors
    const Duration within = spec_.health.config.interval;
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(within * rng_.unit()));
  }
  unsigned inconclusive_rounds = 0;
  while (true) {
    const bool was_up = checker_ == nullptr || checker_->record().state == HealthState::up;
    auto result = co_await ask(client);
    if (result.blocked_locally) ++blocked_locally_;
    const bool responded = result.outcome == DetectionResult::Outcome::answered ||
                           result.outcome == DetectionResult::Outcome::not_http;
    const bool loading = responded && result.identity.loading;
    const bool clear = result.identity.known() || result.conclusive;
    inconclusive_rounds = responded && !loading && !clear ? inconclusive_rounds + 1 : 0;
    if (responded && !loading && (clear || inconclusive_rounds >= max_inconclusive_rounds)) {
      const bool identified = result.identity.known();
      accept_identity(std::move(result.identity));
      if (identified || (known() && was_up)) co_return;
    } else if (checker_ == nullptr && status_.health.state == HealthState::starting) {
      status_.health.reason = loading     ? "it says that it is loading"
                              : responded ? "it fails to say what it runs"
                                          : std::move(result.reason);
      note_first_result();
    }
    const Duration interval = spec_.health.config.interval;
    const Duration longest = std::max(interval, max_detection_interval);
    detection_interval_ =
        responded && identity_ ? std::clamp(2 * detection_interval_, interval, longest) : interval;
    const double share = 0.9 + 0.2 * rng_.unit();
    auto wake = co_await wake_now_.wait(
        loop_.now() + std::chrono::duration_cast<Duration>(detection_interval_ * share));
    static_cast<void>(wake);
  }
}

/// One round.
Task<DetectionResult> BackendMonitor::MonitoredBackend::ask(BackendClient& client) {
  const Instant deadline = loop_.now() + spec_.health.config.timeout;
  const FetchPath get = [&client](std::string path, Instant until) {
    return client.fetch({.path = std::move(path)}, until);
  };
  auto result = co_await detect(get, deadline);
  const bool may_be_grpc = spec_.health.protocol == BackendProtocol::http2;
  if (result.outcome == DetectionResult::Outcome::silent && may_be_grpc) {
    GrpcCall call{.path = "/grpc.health.v1.Health/Check"};  // every gRPC server has an answer
    auto reply = co_await client.call(std::move(call), deadline);
    if (reply && reply->grpc) result.outcome = DetectionResult::Outcome::not_http;
  }
  if (result.outcome == DetectionResult::Outcome::not_http) result.conclusive = true;
  co_return result;
}

/// What was known of a server stands against one that shows nothing: whoever it is that answers in
/// its place, the checks say when the server is back.
void BackendMonitor::MonitoredBackend::accept_identity(EngineIdentity identity) {
  if (known() && !identity.known()) return;
  const bool engine_changed = !identity_ || identity_->engine != identity.engine;
  const bool identity_changed = engine_changed || identity_->kserve != identity.kserve;
  identity_ = std::move(identity);
  if (engine_changed) {
    log::info(fmt::format("pool {}: {} runs {}", status_.pool, status_.backend, identity_->engine));
  }
  if (identity_changed) apply(serves());
}

BackendMonitor::BackendMonitor(Loop& loop, std::uint64_t seed, NameResolver resolve)
    : loop_(loop), rng_(seed), exporters_(loop, std::move(resolve), rng_()), first_result_(loop) {
  run_ = run();
}

BackendMonitor::~BackendMonitor() { run_.drop(); }

/// Every backend takes two connections that are kept, for checks and readings: where these would be
/// a good part of all descriptors, none is kept.
void BackendMonitor::check_descriptor_budget(const Config& config, const PoolSet& pool_set) {
  std::size_t backends = 0;
  for (const PoolSet::PoolEntry& pool_entry : pool_set.pools())
    backends += pool_entry.backends.size();
  const std::size_t limit = descriptor_limit();
  keeps_links_ = 2 * backends <= limit / 4;
  const std::size_t needed = 2 * backends + std::max(backends, 2 * total_max_connections(config));
  if (needed > limit && needed != reported_descriptor_need_) {
    log::warning(fmt::format(
        "{} descriptors are all that may be open; checks and readings of {} backends take up to "
        "{}, requests two each: raise the limit (ulimit -n, LimitNOFILE=)",
        limit, backends, 2 * backends));
  }
  reported_descriptor_need_ = needed;
}

void BackendMonitor::update(const Config& config, const PoolSet& pool_set) {
  check_descriptor_budget(config, pool_set);
  std::map<Key, std::unique_ptr<MonitoredBackend>, Less> backends;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const PoolSet::PoolEntry& pool_entry = pool_set.pools()[i];
    for (std::size_t j = 0; j < pool_entry.backends.size(); ++j) {
      MonitorSpec spec = monitor_spec_for(pool, pool_entry, j, keeps_links_);
      Key key{pool.name, spec.backend->id()};
      auto known = backends_.find(key);
      if (known != backends_.end()) {
        known->second->update(std::move(spec));
        backends.emplace(std::move(key), std::move(known->second));
      } else {
        backends.emplace(std::move(key),
                         std::make_unique<MonitoredBackend>(
                             loop_, rng_(), pool.name, std::move(spec), exporters_, first_result_));
      }
    }
  }
  backends_ = std::move(backends);
}

Task<void> BackendMonitor::wait_for_first_results(Instant deadline) {
  const auto has_first_result = [](const auto& entry) { return entry.second->has_first_result(); };
  while (loop_.now() < deadline && !std::ranges::all_of(backends_, has_first_result)) {
    auto wake = co_await first_result_.wait(deadline);
    static_cast<void>(wake);
  }
}

const BackendStatus* BackendMonitor::find(std::string_view pool, std::string_view backend) const {
  const auto found = backends_.find(Less::Views(pool, backend));
  return found == backends_.end() ? nullptr : &found->second->status();
}

Task<void> BackendMonitor::run() {
  while (true) {
    co_await loop_.sleep_for(trigger_check_interval);
    std::uint64_t blocked_locally = 0;
    for (const auto& [key, backend] : backends_) {
      backend->check_triggers();
      blocked_locally += backend->blocked_locally();
    }
    warn_if_blocked_locally(blocked_locally);
  }
}

/// `hindered`: questions that could not be asked, of all backends that are watched now.
void BackendMonitor::warn_if_blocked_locally(std::uint64_t blocked_locally) {
  const bool more = blocked_locally > std::exchange(blocked_locally_, blocked_locally);
  if (!more || loop_.now() < next_warning_) return;
  next_warning_ = loop_.now() + warning_interval;
  log::error(fmt::format(
      "backends cannot be checked: no descriptor is left for it, or no memory ({} may be open)",
      descriptor_limit()));
}

}  // namespace evenkeel
