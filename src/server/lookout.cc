#include "server/lookout.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "evenkeel/base/log.h"
#include "evenkeel/fleet/detector.h"
#include "evenkeel/fleet/inquirer.h"

namespace evenkeel {
namespace {

/// How soon it is seen that there is reason to check a backend at once.
constexpr Duration between_looks = std::chrono::milliseconds(100);

/// Between two rounds of questions to a server of which they have not shown what it is.
constexpr Duration longest_between_rounds = std::chrono::minutes(1);

/// Rounds in a row that a server leaves half answered before it is taken for one that shows
/// nothing.
constexpr unsigned most_unclear = 3;

/// Of lines that say the same.
constexpr Duration between_complaints = std::chrono::minutes(1);

std::size_t descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  return limit.rlim_cur;
}

/// Connections that the listeners of a file may hold at most; 0: no limit.
std::size_t most_connections(const Config& config) {
  std::size_t most = 0;
  for (const ListenerConfig& listener : config.listeners) most += listener.limits.max_connections;
  return most;
}

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

Orders orders_for(const PoolConfig& pool, const Fleet::Member& member, std::size_t index,
                  bool keeps_links) {
  const Fleet::Seat& seat = member.seats[index];
  return {.backend = member.state->backends()[index],
          .health = {.config = pool.health,
                     .engine = pool.engine,
                     .models = pool.models,
                     .protocol = pool.protocol,
                     .detected = pool.engine == "auto"},
          .metrics = {.config = pool.metrics,
                      .engine = pool.engine,
                      .url = seat.config.metrics,
                      .gpus = seat.config.gpus},
          .access = {.addresses = seat.addresses,
                     .authority = to_string(seat.config.address),
                     .authorization = seat.authorization,
                     .links = link_options_of(pool, seat.config, member.tls),
                     .keeps_links = keeps_links}};
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
  /// Questions so far that could not be asked, for want of something that is ours.
  std::uint64_t hindered() const {
    return hindered_ + (checker_ == nullptr ? 0 : checker_->record().hindered);
  }
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
  bool asking() const { return detection_.valid() && !detection_.ready(); }
  bool known() const { return found_ && found_->known(); }
  bool serves() const;
  void begin_detection();
  Task<void> find_out();
  Task<Finding> ask(Inquirer& inquirer);
  void believe(Identity identity);
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
  std::uint64_t hindered_ = 0;
  Duration between_rounds_{};
  Signal hurried_;  // to the next round
  Task<void> detection_;
};

Lookout::Post::Post(Loop& loop, std::uint64_t seed, std::string pool, Orders orders,
                    GpuExporters& exporters, Signal& settled)
    : loop_(loop),
      rng_(seed),
      orders_(std::move(orders)),
      exporters_(exporters),
      all_settled_(settled),
      hurried_(loop) {
  watched_.pool = std::move(pool);
  watched_.backend = orders_.backend->id();
  watched_.health.since = std::chrono::system_clock::now();
  apply(false);
  if (detects()) begin_detection();
}

void Lookout::Post::adopt(Orders orders) {
  const bool same_engine = orders.health.engine == orders_.health.engine;
  const bool asked = asking();
  if (!same_engine) found_.reset();
  if (!same_engine || orders.access != orders_.access) detection_.drop();
  orders_ = std::move(orders);
  apply(serves());
  if (detects() && (asked || !known())) begin_detection();
}

/// It gets requests, as far as its health goes.
bool Lookout::Post::serves() const {
  const Load& load = orders_.backend->load();
  return !load.closed(Closure::starting) && !load.closed(Closure::unhealthy);
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
  // Another server may come back in its place, and is asked when it is back.
  if (settled_ && detects() && (asking() || record.state != HealthState::up)) begin_detection();
  settle();
}

void Lookout::Post::settle() {
  settled_ = true;
  all_settled_.raise();
}

/// A round of questions comes now, whether they have been asked so far or not.
void Lookout::Post::begin_detection() {
  between_rounds_ = Duration::zero();
  if (asking()) {
    hurried_.raise();
  } else {
    detection_ = find_out();
  }
}

/// Asks until it is known what the server is. One that shows nothing is taken as generic, and asked
/// again, less and less often: it may have been asked too soon, or stand in for the one to come.
Task<void> Lookout::Post::find_out() {
  Inquirer inquirer(loop_, orders_.access);
  if (!orders_.access.keeps_links) {  // many at the same time would have no descriptors
    const Duration within = orders_.health.config.interval;
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(within * rng_.unit()));
  }
  unsigned unclear = 0;
  while (true) {
    const bool stood = checker_ == nullptr || checker_->record().state == HealthState::up;
    auto finding = co_await ask(inquirer);
    if (finding.hindered) ++hindered_;
    const bool heard = finding.outcome == Finding::Outcome::answered ||
                       finding.outcome == Finding::Outcome::not_http;
    const bool loading = heard && finding.identity.loading;
    const bool clear = finding.identity.known() || finding.whole;
    unclear = heard && !loading && !clear ? unclear + 1 : 0;
    if (heard && !loading && (clear || unclear >= most_unclear)) {
      const bool shown = finding.identity.known();
      believe(std::move(finding.identity));
      if (shown || (known() && stood)) co_return;
    } else if (checker_ == nullptr && watched_.health.state == HealthState::starting) {
      watched_.health.reason = loading ? "it says that it is loading"
                               : heard ? "it fails to say what it runs"
                                       : std::move(finding.reason);
      settle();
    }
    const Duration interval = orders_.health.config.interval;
    const Duration longest = std::max(interval, longest_between_rounds);
    between_rounds_ =
        heard && found_ ? std::clamp(2 * between_rounds_, interval, longest) : interval;
    const double share = 0.9 + 0.2 * rng_.unit();
    auto wake = co_await hurried_.wait(
        loop_.now() + std::chrono::duration_cast<Duration>(between_rounds_ * share));
    static_cast<void>(wake);
  }
}

/// One round.
Task<Finding> Lookout::Post::ask(Inquirer& inquirer) {
  const Instant deadline = loop_.now() + orders_.health.config.timeout;
  const AskPath get = [&inquirer](std::string path, Instant until) {
    return inquirer.ask({.path = std::move(path)}, until);
  };
  auto finding = co_await detect(get, deadline);
  const bool may_be_grpc = orders_.health.protocol == BackendProtocol::http2;
  if (finding.outcome == Finding::Outcome::silent && may_be_grpc) {
    GrpcCall call{.path = "/grpc.health.v1.Health/Check"};  // every gRPC server has an answer
    auto reply = co_await inquirer.call(std::move(call), deadline);
    if (reply && reply->grpc) finding.outcome = Finding::Outcome::not_http;
  }
  if (finding.outcome == Finding::Outcome::not_http) finding.whole = true;
  co_return finding;
}

/// What was known of a server stands against one that shows nothing: whoever it is that answers in
/// its place, the checks say when the server is back.
void Lookout::Post::believe(Identity identity) {
  if (known() && !identity.known()) return;
  const bool news = !found_ || found_->engine != identity.engine;
  const bool other = news || found_->kserve != identity.kserve;
  found_ = std::move(identity);
  if (news) {
    log::info(fmt::format("pool {}: {} runs {}", watched_.pool, watched_.backend, found_->engine));
  }
  if (other) apply(serves());
}

Lookout::Lookout(Loop& loop, std::uint64_t seed, NameResolver resolve)
    : loop_(loop), rng_(seed), exporters_(loop, std::move(resolve), rng_()), settled_(loop) {
  watch_ = watch();
}

Lookout::~Lookout() { watch_.drop(); }

/// Every backend takes two connections that are kept, for checks and readings: where these would be
/// a good part of all descriptors, none is kept.
void Lookout::budget(const Config& config, const Fleet& fleet) {
  std::size_t backends = 0;
  for (const Fleet::Member& member : fleet.pools()) backends += member.seats.size();
  const std::size_t limit = descriptor_limit();
  keeps_links_ = 2 * backends <= limit / 4;
  const std::size_t needed = 2 * backends + std::max(backends, 2 * most_connections(config));
  if (needed > limit && needed != told_needed_) {
    log::warning(fmt::format(
        "{} descriptors are all that may be open; checks and readings of {} backends take up to "
        "{}, requests two each: raise the limit (ulimit -n, LimitNOFILE=)",
        limit, backends, 2 * backends));
  }
  told_needed_ = needed;
}

void Lookout::follow(const Config& config, const Fleet& fleet) {
  budget(config, fleet);
  std::map<Key, std::unique_ptr<Post>, Less> posts;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const Fleet::Member& member = fleet.pools()[i];
    for (std::size_t j = 0; j < member.seats.size(); ++j) {
      Orders orders = orders_for(pool, member, j, keeps_links_);
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
    std::uint64_t hindered = 0;
    for (const auto& [key, post] : posts_) {
      post->look();
      hindered += post->hindered();
    }
    complain(hindered);
  }
}

/// `hindered`: questions that could not be asked, of all backends that are watched now.
void Lookout::complain(std::uint64_t hindered) {
  const bool more = hindered > std::exchange(hindered_, hindered);
  if (!more || loop_.now() < next_complaint_) return;
  next_complaint_ = loop_.now() + between_complaints;
  log::error(fmt::format(
      "backends cannot be checked: no descriptor is left for it, or no memory ({} may be open)",
      descriptor_limit()));
}

}  // namespace evenkeel
