#include "evenkeel/fleet/health_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"
#include "fleet/health_probe.h"
#include "fleet/health_tally.h"

namespace evenkeel {
namespace {

/// Between checks while it is in doubt whether a backend stands.
constexpr Duration closer_look = std::chrono::milliseconds(250);

/// Between two tokens that a backend is made to write while it writes them. They take a place in
/// its batch, and keep a model awake that would otherwise be unloaded.
constexpr Duration between_tokens = std::chrono::seconds(10);

/// A server that is late is asked no sooner for that.
bool says_slow(std::optional<CheckResult> result) {
  return result == CheckResult::timeout || result == CheckResult::slow ||
         result == CheckResult::unreachable || result == CheckResult::no_token;
}

/// Requests that say that something is wrong with the server or the way to it. One that is late
/// says that it is busy, and more questions would make it busier.
std::uint64_t broken_requests(const Load& load) {
  std::uint64_t count = 0;
  for (const Fault fault :
       {Fault::connect_failed, Fault::tls_failed, Fault::backend_closed, Fault::backend_protocol}) {
    count += load.errors_total(fault);
  }
  return count;
}

}  // namespace

std::string_view word_of(CheckResult result) {
  switch (result) {
    case CheckResult::passed: return "passed";
    case CheckResult::refused: return "refused";
    case CheckResult::unreachable: return "unreachable";
    case CheckResult::timeout: return "timeout";
    case CheckResult::broken: return "broken";
    case CheckResult::not_ready: return "not_ready";
    case CheckResult::error: return "error";
    case CheckResult::model_missing: return "model_missing";
    case CheckResult::no_token: return "no_token";
    case CheckResult::slow: return "slow";
  }
  return "error";
}

HealthChecker::HealthChecker(Loop& loop, std::uint64_t seed, HealthQuestion question,
                             ServerAccess access, BackendPtr backend, bool serving, Changed changed)
    : loop_(loop),
      rng_(seed),
      backend_(std::move(backend)),
      tally_(std::make_unique<HealthTally>(serving ? HealthState::up : HealthState::unchecked,
                                           question.config)),
      changed_(std::move(changed)),
      errors_(broken_requests(backend_->load())),
      hurried_(loop) {
  record_.state = serving ? HealthState::up : HealthState::starting;
  record_.since = std::chrono::system_clock::now();
  if (!serving) record_.reason = "not checked yet";
  tell_backend();
  probe_ = std::make_shared<HealthProbe>(loop_, std::move(question), std::move(access));
  run_ = run();
}

HealthChecker::~HealthChecker() { run_.drop(); }

void HealthChecker::adopt(HealthQuestion question, ServerAccess access, BackendPtr backend) {
  backend_ = std::move(backend);
  if (question == probe_->question() && access == probe_->access()) return;
  const bool moved = access.addresses != probe_->access().addresses;
  tally_->adopt(question.config);
  probe_ = std::make_shared<HealthProbe>(loop_, std::move(question), std::move(access));
  if (moved) hurry();  // what is there now has not been asked
}

void HealthChecker::hurry() {
  if (!asking_) hurried_.raise();
}

void HealthChecker::look() {
  const bool avoided = backend_->load().avoided(loop_.now());
  if (avoided && !avoided_) hurry();
  avoided_ = avoided;
  const std::uint64_t errors = broken_requests(backend_->load());
  if (errors != errors_) failed_others_ = true;
  errors_ = errors;
  if (failed_others_ && !asking_ && loop_.now() - last_check_ >= closer_look) hurry();
  if (asking_ || closes_idle_ || !linked_ || probe_->linked()) return;
  linked_ = false;
  // Before we would have let it go ourselves.
  lost_ = loop_.now() - last_check_ < probe_->access().links.idle_timeout;
  if (lost_) hurry();
}

Task<void> HealthChecker::run() {
  while (true) {
    co_await check();
    auto wake = co_await hurried_.wait(loop_.now() + pause());
    static_cast<void>(wake);
  }
}

/// One check, and what follows from it.
Task<void> HealthChecker::check() {
  const std::shared_ptr<HealthProbe> probe = probe_;  // another may be adopted meanwhile
  const Load& load = backend_->load();
  const bool fresh = must_connect(*probe);
  const bool token = token_is_due();
  const std::uint64_t answers = load.answers_total();
  const Instant began = loop_.read_clock();
  asking_ = true;
  auto outcome = co_await probe->check(fresh, token);
  asking_ = false;
  last_check_ = loop_.read_clock();
  if (token && outcome.passed()) last_token_ = last_check_;
  record_.took = last_check_ - began;
  if (!probe->models().empty()) record_.models = probe->models();
  watch_link(outcome.passed());
  if (outcome.passed() && fresh) backend_->connected();
  const bool busy =
      outcome.result == CheckResult::timeout && backend_->load().answers_total() != answers;
  conclude(std::move(outcome), busy);
}

/// Whether a check has to prove that the backend takes connections: a server that is about to leave
/// may answer on the one that it has.
bool HealthChecker::must_connect(const HealthProbe& probe) {
  const bool failed_others = std::exchange(failed_others_, false);
  if (probe.question().config.port != 0) return false;  // not the port that requests go to
  return probe.always_connects() || failed_others || tally_->in_doubt() ||
         backend_->load().suspect();
}

bool HealthChecker::token_is_due() const {
  if (!probe_->wants_token()) return false;
  return record_.state != HealthState::up || loop_.now() - last_token_ >= between_tokens;
}

/// After a check: whether the end of the connection that it leaves behind would mean anything.
void HealthChecker::watch_link(bool passed) {
  linked_ = probe_->linked();
  closes_idle_ = passed && (closes_idle_ || lost_);
  lost_ = false;
}

/// `busy`: it was late, while it answered others.
void HealthChecker::conclude(CheckOutcome outcome, bool busy) {
  if (!outcome.result) {  // of the server we know no more than before
    ++record_.hindered;
    if (record_.state != HealthState::up) record_.reason = std::move(outcome.reason);
    return;
  }
  record_.last = outcome.result;
  ++record_.checks[static_cast<std::size_t>(*outcome.result)];
  if (busy && record_.state == HealthState::up) {
    log::debug(fmt::format("{} is busy: {}", backend_->id(), outcome.reason));
    return;
  }
  const HealthState state = tally_->note(*outcome.result, outcome.loading);
  record_.reason = state == HealthState::up ? std::string() : std::move(outcome.reason);
  if (state != record_.state || !told_) enter(state);
}

void HealthChecker::enter(HealthState state) {
  told_ = true;
  if (state != record_.state) record_.since = std::chrono::system_clock::now();
  record_.state = state;
  tell_backend();
  changed_(record_);
}

/// In this order, so that it is not open in between.
void HealthChecker::tell_backend() {
  Load& load = backend_->load();
  const bool starting = record_.state == HealthState::starting;
  const bool down = record_.state == HealthState::down;
  if (starting) load.close(Closure::starting);
  if (down) load.close(Closure::unhealthy);
  if (!starting && load.closed(Closure::starting)) backend_->reopen(Closure::starting);
  if (!down && load.closed(Closure::unhealthy)) backend_->reopen(Closure::unhealthy);
}

/// Until the next check. The second one is anywhere within the first interval, so that those of a
/// thousand backends that were met together do not stay together.
Duration HealthChecker::pause() {
  const Duration interval = probe_->question().config.interval;
  const bool doubt =
      tally_->in_doubt() || (backend_->load().suspect() && record_.state == HealthState::up);
  if (doubt && !says_slow(record_.last)) return std::min(interval, closer_look);
  const double share = std::exchange(spread_, true) ? 0.9 + 0.2 * rng_.unit() : rng_.unit();
  return std::chrono::duration_cast<Duration>(interval * share);
}

}  // namespace evenkeel
