#include "server/lookout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "evenkeel/base/log.h"
#include "evenkeel/fleet/detector.h"
#include "evenkeel/fleet/inquirer.h"

namespace evenkeel {
namespace {

/// How soon it is seen that there is reason to check a backend at once.
constexpr Duration between_looks = std::chrono::milliseconds(100);

std::string_view word_of(HealthState state) {
  switch (state) {
    case HealthState::unchecked: return "unchecked";
    case HealthState::starting: return "starting";
    case HealthState::up: return "up";
    case HealthState::down: return "down";
  }
  return "down";
}

/// What is asked of a backend, and how it is reached.
struct Orders {
  BackendPtr backend;
  HealthQuestion health;  // its engine as the file has it
  MetricsQuestion metrics;
  ServerAccess access;
};

Orders orders_for(const PoolConfig& pool, const Fleet::Member& member, std::size_t index) {
  const Fleet::Seat& seat = member.seats[index];
  return {.backend = member.state->backends()[index],
          .health = {.config = pool.health,
                     .engine = pool.engine,
                     .models = pool.models,
                     .protocol = pool.protocol},
          .metrics = {.config = pool.metrics,
                      .engine = pool.engine,
                      .url = seat.config.metrics,
                      .gpus = seat.config.gpus},
          .access = {.addresses = seat.addresses,
                     .authority = to_string(seat.config.address),
                     .authorization = seat.authorization,
                     .links = link_options_of(pool, seat.config, member.tls)}};
}

}  // namespace

/// Thread: the control loop's.
class Lookout::Post {
 public:
  /// `settled` is raised after the first result.
  Post(Loop& loop, std::uint64_t seed, std::string pool, Orders orders, GpuExporters& exporters,
       Signal& settled);

  /// As the constructor's, from now on. Nothing that was learned is lost.
  void adopt(Orders orders);
  /// Sees what gives reason to check at once.
  void look() {
    if (checker_ != nullptr) checker_->look();
  }
  bool settled() const { return settled_; }
  const Watched& report();

 private:
  /// Readings of its metrics, and what they were begun for.
  struct Polled {
    MetricsQuestion question;
    ServerAccess access;
    const Load* load;
    std::unique_ptr<MetricsPoller> poller;
  };

  bool detects() const { return orders_.health.engine == "auto"; }
  void begin_detection();
  Task<void> find_out();
  void apply(bool serving) {
    apply_checks(serving);
    apply_readings();
  }
  void apply_checks(bool serving);
  void apply_readings();
  void changed(const HealthRecord& record);
  void settle();

  Loop& loop_;
  Rng rng_;
  Orders orders_;
  GpuExporters& exporters_;
  Signal& all_settled_;
  Watched watched_;
  std::optional<Identity> found_;
  std::unique_ptr<HealthChecker> checker_;
  std::optional<Polled> polled_;
  bool settled_ = false;
  Task<void> detection_;
};

Lookout::Post::Post(Loop& loop, std::uint64_t seed, std::string pool, Orders orders,
                    GpuExporters& exporters, Signal& settled)
    : loop_(loop),
      rng_(seed),
      orders_(std::move(orders)),
      exporters_(exporters),
      all_settled_(settled) {
  watched_.pool = std::move(pool);
  watched_.backend = orders_.backend->id();
  watched_.health.since = std::chrono::system_clock::now();
  apply(false);
  if (detects()) begin_detection();
}

void Lookout::Post::adopt(Orders orders) {
  const bool same_engine = orders.health.engine == orders_.health.engine;
  if (!same_engine) found_.reset();
  if (!same_engine || orders.access != orders_.access) detection_.drop();
  orders_ = std::move(orders);
  const Load& load = orders_.backend->load();
  apply(!load.closed(Closure::starting) && !load.closed(Closure::unhealthy));
  if (detects() && !found_) begin_detection();
}

const Watched& Lookout::Post::report() {
  if (checker_ != nullptr) watched_.health = checker_->record();
  watched_.engine = found_ ? found_->engine : orders_.health.engine;
  watched_.models = watched_.health.models;
  if (watched_.models.empty() && found_) watched_.models = found_->models;
  watched_.poller = polled_ ? polled_->poller.get() : nullptr;
  return watched_;
}

/// Has it checked as is known by now. `serving`: it gets requests already, and loses none
/// of them to a question that is still open.
void Lookout::Post::apply_checks(bool serving) {
  HealthQuestion question = orders_.health;
  if (found_) {
    question.engine = found_->engine;
    question.kserve = found_->kserve;
  }
  if (kind_of(question) != HealthCheckKind::off) {
    if (checker_ != nullptr) {
      checker_->adopt(std::move(question), orders_.access, orders_.backend);
      return;
    }
    checker_ = std::make_unique<HealthChecker>(
        loop_, rng_(), std::move(question), orders_.access, orders_.backend, serving,
        [this](const HealthRecord& record) { changed(record); });
    return;
  }
  checker_.reset();
  HealthRecord& record = watched_.health;
  const bool waits = detects() && !found_ && orders_.health.config.check != HealthCheckKind::off;
  if (waits && !serving) {
    record.state = HealthState::starting;
    record.reason = "not known yet what it runs";
    orders_.backend->load().close(Closure::starting);
    return;
  }
  if (record.state != HealthState::unchecked) record.since = std::chrono::system_clock::now();
  record.state = HealthState::unchecked;
  record.reason.clear();
  orders_.backend->reopen(Closure::starting);
  orders_.backend->reopen(Closure::unhealthy);
  settle();
}

/// Has its metrics read as is known by now; the reader goes on where nothing has changed for it.
void Lookout::Post::apply_readings() {
  MetricsQuestion question = orders_.metrics;
  if (found_) question.engine = found_->engine;
  const Load* load = &orders_.backend->load();
  if (polled_ && polled_->question == question && polled_->access == orders_.access &&
      polled_->load == load) {
    return;
  }
  polled_.reset();  // before the next begins: it unsays what it published
  if (!is_polled(question)) return;
  auto poller =
      std::make_unique<MetricsPoller>(loop_, question, orders_.access, orders_.backend, exporters_);
  polled_.emplace(Polled{std::move(question), orders_.access, load, std::move(poller)});
}

void Lookout::Post::changed(const HealthRecord& record) {
  const std::string line =
      fmt::format("pool {}: {} is {}{}{}", watched_.pool, watched_.backend, word_of(record.state),
                  record.reason.empty() ? "" : ": ", record.reason);
  const bool as_hoped = !settled_ && record.state == HealthState::up;
  log::write(as_hoped                            ? log::Level::debug
             : record.state == HealthState::down ? log::Level::warning
                                                 : log::Level::info,
             line);
  // Another server may come back in its place.
  if (settled_ && record.state != HealthState::up && detects()) begin_detection();
  settle();
}

void Lookout::Post::settle() {
  settled_ = true;
  all_settled_.raise();
}

void Lookout::Post::begin_detection() {
  if (!detection_.valid() || detection_.ready()) detection_ = find_out();
}

/// Asks until somebody answers who is ready to say what it is.
Task<void> Lookout::Post::find_out() {
  Inquirer inquirer(loop_, orders_.access);
  const AskPath ask = [&inquirer](std::string path, Instant deadline) {
    return inquirer.ask({.path = std::move(path)}, deadline);
  };
  while (true) {
    const HealthConfig& config = orders_.health.config;
    auto finding = co_await detect(ask, loop_.now() + config.timeout);
    const bool heard = finding.outcome == Finding::Outcome::answered ||
                       finding.outcome == Finding::Outcome::not_http;
    if (heard && !finding.identity.loading) {
      const bool news = !found_ || found_->engine != finding.identity.engine;
      found_ = std::move(finding.identity);
      if (news)
        log::info(
            fmt::format("pool {}: {} runs {}", watched_.pool, watched_.backend, found_->engine));
      break;
    }
    if (checker_ == nullptr && watched_.health.state == HealthState::starting) {
      watched_.health.reason = heard ? "it says that it is loading" : std::move(finding.reason);
      settle();
    }
    const double share = 0.9 + 0.2 * rng_.unit();
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(config.interval * share));
  }
  apply(false);
}

Lookout::Lookout(Loop& loop, std::uint64_t seed, NameResolver resolve)
    : loop_(loop), rng_(seed), exporters_(loop, std::move(resolve), rng_()), settled_(loop) {
  watch_ = watch();
}

Lookout::~Lookout() { watch_.drop(); }

void Lookout::follow(const Config& config, const Fleet& fleet) {
  std::map<Key, std::unique_ptr<Post>, Less> posts;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const Fleet::Member& member = fleet.pools()[i];
    for (std::size_t j = 0; j < member.seats.size(); ++j) {
      Orders orders = orders_for(pool, member, j);
      Key key{pool.name, orders.backend->id()};
      auto known = posts_.find(key);
      if (known != posts_.end()) {
        known->second->adopt(std::move(orders));
        posts.emplace(std::move(key), std::move(known->second));
      } else {
        posts.emplace(std::move(key),
                      std::make_unique<Post>(loop_, rng_(), pool.name, std::move(orders),
                                             exporters_, settled_));
      }
    }
  }
  posts_ = std::move(posts);
}

Task<void> Lookout::first_round(Instant deadline) {
  const auto settled = [](const auto& entry) { return entry.second->settled(); };
  while (loop_.now() < deadline && !std::ranges::all_of(posts_, settled)) {
    auto wake = co_await settled_.wait(deadline);
    static_cast<void>(wake);
  }
}

const Watched* Lookout::find(std::string_view pool, std::string_view backend) const {
  const auto found = posts_.find(Less::Views(pool, backend));
  return found == posts_.end() ? nullptr : &found->second->report();
}

Task<void> Lookout::watch() {
  while (true) {
    co_await loop_.sleep_for(between_looks);
    for (const auto& [key, post] : posts_) post->look();
  }
}

}  // namespace evenkeel
