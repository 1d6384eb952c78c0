#include "upstream/health_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// Interval of checks while results contradict the state.
constexpr Duration fast_interval = std::chrono::milliseconds(250);

/// Minimum time between two generated tokens of a healthy backend. A token takes a slot in its
/// batch, and keeps a model loaded that the server would otherwise unload.
constexpr Duration token_interval = std::chrono::seconds(10);

/// Results after which the server is not checked more often, which would slow it further.
bool is_slow(std::optional<CheckResult> result) {
  return result == CheckResult::timeout || result == CheckResult::slow ||
         result == CheckResult::unreachable || result == CheckResult::no_token;
}

/// Errors of requests that point to a fault of the server or of the network. Timeouts are left out:
/// the server is busy then, and more checks would make it busier.
std::uint64_t connection_errors(const BackendStats& stats) {
  std::uint64_t count = 0;
  for (const Fault fault :
       {Fault::connect_failed, Fault::tls_failed, Fault::backend_closed, Fault::backend_protocol}) {
    count += stats.errors_total(fault);
  }
  return count;
}

}  // namespace

HealthChecker::HealthChecker(Loop& loop, std::uint64_t seed, HealthCheckSpec spec,
                             ServerAccess access, BackendPtr backend, bool serving,
                             OnChange on_change)
    : loop_(loop),
      rng_(seed),
      backend_(std::move(backend)),
      rise_fall_(serving ? HealthState::up : HealthState::unchecked, spec.config),
      on_change_(std::move(on_change)),
      seen_errors_(connection_errors(backend_->stats())),
      wake_now_(loop) {
  record_.state = serving ? HealthState::up : HealthState::starting;
  record_.since = std::chrono::system_clock::now();
  if (!serving) record_.reason = "not checked yet";
  apply_to_backend();
  probe_ = std::make_shared<HealthProbe>(loop_, std::move(spec), std::move(access));
  run_ = run();
}

HealthChecker::~HealthChecker() {
  run_.drop();
  backend_->state().set_probed(false);
}

void HealthChecker::update(HealthCheckSpec spec, ServerAccess access, BackendPtr backend) {
  backend_ = std::move(backend);
  if (spec == probe_->spec() && access == probe_->access()) return;
  const bool moved = access.addresses != probe_->access().addresses;
  rise_fall_.update(spec.config);
  probe_ = std::make_shared<HealthProbe>(loop_, std::move(spec), std::move(access));
  if (!moved) return;
  // A server at another address has not been checked, and what a check finds of the one before is
  // worth nothing. It may be what has called this, so it ends in the loop's next step.
  if (checking_) {
    loop_.wake_soon(restart_);
  } else {
    wake_now_.raise();
  }
}

void HealthChecker::restart() {
  run_.drop();
  checking_ = false;
  run_ = run();
}

void HealthChecker::check_now() {
  if (!checking_) wake_now_.raise();
}

void HealthChecker::check_triggers() {
  const bool in_backoff = backend_->state().unreachable(loop_.now());
  if (in_backoff && !in_backoff_) check_now();
  in_backoff_ = in_backoff;
  const std::uint64_t errors = connection_errors(backend_->stats());
  if (errors != seen_errors_) requests_failed_ = true;
  seen_errors_ = errors;
  if (requests_failed_ && !checking_ && loop_.now() - last_check_ >= fast_interval) check_now();
  if (checking_ || server_closes_idle_ || !has_idle_link_ || probe_->has_idle_link()) return;
  has_idle_link_ = false;
  // Lost only if it closed before our own idle timeout.
  idle_link_lost_ = loop_.now() - last_check_ < probe_->access().links.keep_alive.idle;
  if (idle_link_lost_) check_now();
}

Task<void> HealthChecker::run() {
  while (true) {
    co_await check();
    co_await wake_now_.wait(loop_.now() + next_delay());
  }
}

/// Runs one check and applies its result.
Task<void> HealthChecker::check() {
  const std::shared_ptr<HealthProbe> probe = probe_;  // `update` may replace `probe_` meanwhile
  const bool fresh = needs_new_connection(*probe);
  const bool token = token_is_due();
  const std::uint64_t answers = backend_->stats().responses_total();
  const Instant began = loop_.read_clock();
  backend_->state().set_probed(probe->can_generate());
  checking_ = true;
  auto outcome = co_await probe->check(fresh, token);
  checking_ = false;
  last_check_ = loop_.read_clock();
  if (probe->access().addresses != probe_->access().addresses) co_return;  // of another server
  if (token && outcome.passed() && !outcome.sleeping) last_token_ = last_check_;
  record_.took = last_check_ - began;
  if (probe->models() != nullptr) record_.models = probe->models();
  track_idle_link(outcome.passed());
  if (outcome.passed() && fresh) {
    backend_->connected();
    if (record_.last && *record_.last != CheckResult::passed) ++recoveries_;
  }
  const bool busy =
      outcome.result == CheckResult::timeout && backend_->stats().responses_total() != answers;
  const bool passed = outcome.passed();
  const bool sleeping = outcome.sleeping;
  if (passed) backend_->note_sleep(SleepSource::check, sleeping);
  apply_result(std::move(outcome), busy);
  ++revision_;
  if (passed && !sleeping) co_await probe_ejected(*probe);
}

/// Tries an ejected backend with a request of our own, so that no client's has to be its trial.
Task<void> HealthChecker::probe_ejected(HealthProbe& probe) {
  const BackendState& state = backend_->state();
  if (!state.is_out(OutOfRotation::ejected) || state.avoided(loop_.now())) co_return;
  if (!probe.can_generate()) co_return;
  checking_ = true;
  auto generated = co_await probe.generate();
  checking_ = false;
  if (probe.access().addresses != probe_->access().addresses) co_return;  // of another server
  backend_->state().set_probed(probe.can_generate());
  if (generated.passed()) {
    backend_->probe_succeeded(loop_.read_clock());
  } else if (log::health.writes(log::Level::debug)) {
    log::health.debug(fmt::format("{} stays ejected: {}", backend_->id(), generated.reason));
  }
}

bool HealthChecker::silent() const {
  if (record_.state != HealthState::down || !record_.last) return false;
  return *record_.last == CheckResult::refused || *record_.last == CheckResult::unreachable ||
         *record_.last == CheckResult::timeout || *record_.last == CheckResult::broken;
}

/// True if the check must open a new connection, to see that the backend accepts them: a server
/// that shuts down may still answer on existing ones.
bool HealthChecker::needs_new_connection(const HealthProbe& probe) {
  const bool failed_others = std::exchange(requests_failed_, false);
  if (probe.spec().config.port != 0) return false;  // not the port of the requests
  return probe.always_connects() || failed_others || rise_fall_.in_transition() ||
         backend_->state().connect_failures() != 0;
}

bool HealthChecker::token_is_due() const {
  if (!probe_->wants_token()) return false;
  return record_.state != HealthState::up || loop_.now() - last_token_ >= token_interval;
}

/// Notes after a check whether it left a connection open, and whether a close of it would be a sign
/// of trouble.
void HealthChecker::track_idle_link(bool passed) {
  has_idle_link_ = probe_->has_idle_link();
  server_closes_idle_ = passed && (server_closes_idle_ || idle_link_lost_);
  idle_link_lost_ = false;
}

/// `busy`: the check timed out while the server answered requests.
void HealthChecker::apply_result(CheckOutcome outcome, bool busy) {
  if (!outcome.result) {  // the check failed for a local reason
    ++record_.blocked_locally;
    if (record_.state != HealthState::up) record_.reason = std::move(outcome.reason);
    return;
  }
  if (log::health.writes(log::Level::debug)) {
    log::health.debug(fmt::format("{}: check: {}{}{}", backend_->id(), to_string(*outcome.result),
                                  outcome.reason.empty() ? "" : ": ", outcome.reason));
  }
  track_restart(*outcome.result);
  record_.last = outcome.result;
  ++record_.checks[static_cast<std::size_t>(*outcome.result)];
  if (busy && record_.state == HealthState::up) {
    if (log::health.writes(log::Level::debug))
      log::health.debug(fmt::format("{} is busy: {}", backend_->id(), outcome.reason));
    return;
  }
  const HealthState state = rise_fall_.record_result(*outcome.result, outcome.loading);
  record_.reason = state == HealthState::up ? std::string() : std::move(outcome.reason);
  if (state != record_.state || !reported_) enter_state(state);
}

/// A server that was up, refused connections and accepts them again has most likely been restarted.
void HealthChecker::track_restart(CheckResult result) {
  const bool was_up = record_.state == HealthState::up || record_.state == HealthState::down;
  const bool of_requests = probe_->spec().config.port == 0;  // the port of the requests
  if (result == CheckResult::refused && was_up && of_requests) refused_ = true;
  if (result == CheckResult::passed && std::exchange(refused_, false)) {
    backend_->signals().engine().returned();
  }
}

void HealthChecker::enter_state(HealthState state) {
  reported_ = true;
  if (state != record_.state) record_.since = std::chrono::system_clock::now();
  record_.state = state;
  apply_to_backend();
  on_change_(record_);
}

/// Adds the new reason before it removes the old one, so that the backend is not briefly in
/// rotation between `starting` and `down`.
void HealthChecker::apply_to_backend() {
  BackendState& state = backend_->state();
  const bool starting = record_.state == HealthState::starting;
  const bool down = record_.state == HealthState::down;
  if (starting) state.take_out(OutOfRotation::starting);
  if (down) state.take_out(OutOfRotation::unhealthy);
  if (!starting && state.is_out(OutOfRotation::starting))
    backend_->put_back(OutOfRotation::starting);
  if (!down && state.is_out(OutOfRotation::unhealthy)) backend_->put_back(OutOfRotation::unhealthy);
}

/// Delay before the next check. That before the second is random within the interval, so that the
/// checks of backends that start together spread out.
Duration HealthChecker::next_delay() {
  const Duration interval = probe_->spec().config.interval;
  const bool doubt = rise_fall_.in_transition() || (backend_->state().connect_failures() != 0 &&
                                                    record_.state == HealthState::up);
  if (doubt && !is_slow(record_.last)) return std::min(interval, fast_interval);
  const double jitter = std::exchange(jittered_, true) ? 0.9 + 0.2 * rng_.unit() : rng_.unit();
  return std::chrono::duration_cast<Duration>(interval * jitter);
}

}  // namespace evenkeel
