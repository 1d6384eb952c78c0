#include "evenkeel/balance/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

namespace evenkeel {
namespace {

/// How long the failure of a request counts for more than successes of safe methods.
constexpr Duration unsafe_memory = std::chrono::seconds(10);

/// After this time another request may be the trial of a backend.
constexpr Duration max_trial = std::chrono::seconds(30);

/// A parked backend may get another request after this time, although one is on its way.
constexpr Duration overflow_interval = std::chrono::seconds(1);

Duration failure_backoff(std::uint32_t steps) {
  return std::min(Load::initial_failure_backoff * (1 << std::min(steps - 1, 8u)),
                  Load::max_backoff);
}

Duration park(std::uint32_t doublings) {
  return std::min(Load::initial_park * (1 << std::min(doublings, 8u)), Load::max_park);
}

/// Never lowers it.
void raise_to(std::atomic<Duration::rep>& value, Duration::rep wanted) {
  Duration::rep seen = value.load(std::memory_order_relaxed);
  while (seen < wanted && !value.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Load::back_off(Instant now) {
  failures_.connect_failed_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  lengthen_backoff(now);
}

void Load::lengthen_backoff(Instant now) {
  const std::uint32_t failures = connect_failures();
  Duration::rep until = live_.backoff_until.load(std::memory_order_relaxed);
  const Duration::rep current = now.time_since_epoch().count();
  if (failures > 0 && until != 0 && current < until) return;

  const Duration wait = std::min(initial_backoff * (1 << std::min(failures, 8u)), max_backoff);
  const Duration::rep next = std::max({current + wait.count(), until, Duration::rep{1}});
  if (live_.backoff_until.compare_exchange_strong(until, next, std::memory_order_relaxed)) {
    live_.connect_failures.fetch_add(1, std::memory_order_relaxed);
  }
}

void Load::begin_trial(Instant now) {
  // As if it failed: a connection attempt that does fail comes within the longer back-off.
  if (has_connect_failures()) return lengthen_backoff(now);
  if (ejection() == Ejection::half_open) {
    // Its answer ends that. A trial whose client leaves has none: another one follows.
    return avoid_until(now + max_trial);
  }
  if (ejection() == Ejection::probed) return;
  if (silent()) return begin_silent_trial(now);
  if (parked(now)) begin_overflow(now);
  const std::uint32_t steps = failures_.backoffs.load(std::memory_order_relaxed);
  if (steps > 0) avoid_until(now + failure_backoff(steps));
}

bool Load::end_trial(Instant now) {
  if (ejection() != Ejection::half_open || parked(now) || has_connect_failures()) return false;
  live_.backoff_until.store(1, std::memory_order_relaxed);  // in the past: it needs a success
  return true;
}

/// A request that comes before one is due is there because all others are avoided too. It defers
/// none.
void Load::begin_overflow(Instant now) {
  const Duration::rep current = now.time_since_epoch().count();
  if (current < overflow_.from.load(std::memory_order_relaxed)) return;
  overflow_.pending.store(true, std::memory_order_relaxed);
  raise_to(overflow_.from, current + overflow_interval.count());
}

bool Load::recover() {
  if (!has_connect_failures()) return false;
  live_.connect_failures.store(0, std::memory_order_relaxed);
  // A server that refused connections and accepts them again has been restarted.
  if (connect_fault() == Fault::connect_failed) forget_outcomes();
  if (failures_in_a_row() > 0) return false;
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

bool Load::end_connect_failures(Instant sent, Instant now) {
  const Duration::rep failed_at = failures_.connect_failed_at.load(std::memory_order_relaxed);
  if (!has_connect_failures() || sent.time_since_epoch().count() <= failed_at) return false;
  live_.connect_failures.store(0, std::memory_order_relaxed);
  if (parked(now) || !has_no_failures()) return false;
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

void Load::record_failed(const AttemptResult& result, Instant now) {
  failures_.last_status.store(result.status, std::memory_order_relaxed);
  if (result.fault) failures_.last_fault.store(*result.fault, std::memory_order_relaxed);
  failures_.total.fetch_add(1, std::memory_order_relaxed);
  failures_.in_a_row.fetch_add(1, std::memory_order_relaxed);
  if (!result.safe_method) {
    failures_.unsafe_failed_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  if (in_backoff(now)) return;  // requests that fail together are one failure for the back-off
  const std::uint32_t steps = failures_.backoffs.fetch_add(1, std::memory_order_relaxed) + 1;
  avoid_until(now + failure_backoff(steps));
}

void Load::record_overloaded(const AttemptResult& result, Instant now) {
  const std::uint32_t before = failures_.overloads_in_a_row.load(std::memory_order_relaxed);
  const bool parked_already = parked(now);
  // A hundred refusals at once are one.
  if (!parked_already) failures_.overloads_in_a_row.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t doublings = parked_already && before > 0 ? before - 1 : before;
  const Duration wait =
      result.retry_after > Duration{} ? std::min(result.retry_after, max_park) : park(doublings);
  const Instant until = now + wait;
  defer_overflow(result, parked_already, now);
  raise_to(failures_.parked_until, until.time_since_epoch().count());
  avoid_until(until);
  if (result.status == 429) return;
  // What a 503 says is about the server, not about one client.
  raise_to(overflow_.from, until.time_since_epoch().count());
  raise_to(overflow_.server_until, until.time_since_epoch().count());
}

/// The first refusal of a request that was sent since one was due is the refusal of that one;
/// refusals that were on their way together are one.
void Load::defer_overflow(const AttemptResult& result, bool parked_already, Instant now) {
  if (!result.safe_method) overflow_.refused_unsafe.store(true, std::memory_order_relaxed);
  const Duration::rep current = now.time_since_epoch().count();
  const bool was_on_its_way = result.sent.time_since_epoch().count() <=
                              overflow_.last_refusal.load(std::memory_order_relaxed);
  if (parked_already && was_on_its_way) return;
  overflow_.last_refusal.store(current, std::memory_order_relaxed);
  const bool was_due = overflow_.pending.exchange(false, std::memory_order_relaxed);
  if (parked_already && !was_due) return;
  const std::uint32_t before = parked_already
                                   ? overflow_.refusals.fetch_add(1, std::memory_order_relaxed)
                                   : overflow_.refusals.load(std::memory_order_relaxed);
  if (parked_already || before > 0) raise_to(overflow_.from, current + park(before).count());
}

bool Load::end_park(bool safe_method, Instant sent, Instant now) {
  const Duration::rep refused_at = overflow_.last_refusal.load(std::memory_order_relaxed);
  if (!parked(now) || sent.time_since_epoch().count() <= refused_at) return false;
  const Duration::rep server_until = overflow_.server_until.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < server_until) return false;
  if (safe_method && overflow_.refused_unsafe.load(std::memory_order_relaxed)) return false;
  clear_park();
  return has_no_failures() && live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

/// The success of a safe method says nothing yet of the requests that failed.
bool Load::proves_little(Instant now) const {
  const Instant failed_at{Duration(failures_.unsafe_failed_at.load(std::memory_order_relaxed))};
  if (failed_at == Instant{}) return false;
  return ejection() != Ejection::none || now - failed_at < unsafe_memory;
}

bool Load::end_failures(bool by_safe_method, Instant now) {
  if (by_safe_method && proves_little(now)) {
    if (parked(now) || unreachable(now)) return false;
    live_.backoff_until.store(1, std::memory_order_relaxed);  // in the past: it needs a success
    return true;
  }
  clear_failures();
  const Ejection before = ejection();
  if (before != Ejection::none && before != Ejection::ejected)
    failures_.ejection.store(Ejection::none, std::memory_order_relaxed);
  if (parked(now) || unreachable(now)) return false;
  clear_park();
  live_.connect_failures.store(0, std::memory_order_relaxed);
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

void Load::eject(EjectionReason reason, Duration took, Instant now) {
  failures_.ejection_reason.store(reason, std::memory_order_relaxed);
  failures_.ejected_after.store(failures_in_a_row(), std::memory_order_relaxed);
  failures_.ejected_for.store(took.count(), std::memory_order_relaxed);
  failures_.ejected_until.store((now + took).time_since_epoch().count(), std::memory_order_relaxed);
  failures_.ejections[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  failures_.ejection.store(Ejection::ejected, std::memory_order_relaxed);
  take_out(OutOfRotation::ejected);
}

/// The back-off of its failures is over: it has waited longer.
void Load::set_ejection(Ejection ejection, Instant now) {
  failures_.ejection.store(ejection, std::memory_order_relaxed);
  if (ejection == Ejection::none || parked(now) || has_connect_failures()) return;
  live_.backoff_until.store(1, std::memory_order_relaxed);  // in the past: it needs a success
}

void Load::begin_silence(Duration wait, Instant now) {
  failures_.silence.store(wait.count(), std::memory_order_relaxed);
  avoid_until(now + wait);
}

void Load::begin_silent_trial(Instant now) {
  const Duration last(failures_.silence.load(std::memory_order_relaxed));
  begin_silence(std::max(last, std::min(last * 2, max_trial)), now);
}

bool Load::end_silence() {
  if (failures_.silence.exchange(0, std::memory_order_relaxed) == 0) return false;
  const bool avoided_for_more = has_connect_failures() || failures_in_a_row() > 0 ||
                                failures_.overloads_in_a_row.load(std::memory_order_relaxed) > 0 ||
                                ejection() != Ejection::none;
  if (avoided_for_more) return false;
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

void Load::forget_failures() {
  forget_outcomes();
  if (!has_connect_failures()) live_.backoff_until.store(0, std::memory_order_relaxed);
}

void Load::forget_outcomes() {
  clear_failures();
  clear_park();
  failures_.ejection.store(Ejection::none, std::memory_order_relaxed);
}

AttemptResult Load::last_failure() const {
  AttemptResult failure{.outcome = AttemptOutcome::failed,
                        .status = failures_.last_status.load(std::memory_order_relaxed)};
  if (failure.status == 0) failure.fault = failures_.last_fault.load(std::memory_order_relaxed);
  return failure;
}

void Load::clear_failures() {
  failures_.silence.store(0, std::memory_order_relaxed);
  failures_.unsafe_failed_at.store(0, std::memory_order_relaxed);
  failures_.in_a_row.store(0, std::memory_order_relaxed);
  failures_.backoffs.store(0, std::memory_order_relaxed);
}

void Load::clear_park() {
  failures_.parked_until.store(0, std::memory_order_relaxed);
  failures_.overloads_in_a_row.store(0, std::memory_order_relaxed);
  overflow_.from.store(0, std::memory_order_relaxed);
  overflow_.server_until.store(0, std::memory_order_relaxed);
  overflow_.refusals.store(0, std::memory_order_relaxed);
  overflow_.pending.store(false, std::memory_order_relaxed);
  overflow_.refused_unsafe.store(false, std::memory_order_relaxed);
}

/// Never shortens a back-off.
void Load::avoid_until(Instant until) {
  raise_to(live_.backoff_until, std::max<Duration::rep>(until.time_since_epoch().count(), 1));
}

const char* to_string(SlowPart part) {
  switch (part) {
    case SlowPart::per_token: return "per_token";
    case SlowPart::first_token: return "first_token";
    case SlowPart::response: return "response";
  }
  return "response";
}

/// Those that count at once may lose each other's: it is for people.
void Load::count_client_error(int status) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const bool goes_on = client_error_status_.load(relaxed) == status &&
                       client_errors_after_.load(relaxed) == responses_total();
  client_errors_.store(goes_on ? client_errors_.load(relaxed) + 1 : 1, relaxed);
  client_errors_after_.store(responses_total(), relaxed);
  client_error_status_.store(status, relaxed);
}

Load::ClientErrors Load::client_errors() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (client_errors_after_.load(relaxed) != responses_total()) return {};
  return {.status = client_error_status_.load(relaxed), .in_a_row = client_errors_.load(relaxed)};
}

std::string describe_slowness(Slowness slowness) {
  const char* const part = slowness.part == SlowPart::per_token     ? "time per token"
                           : slowness.part == SlowPart::first_token ? "time to first token"
                                                                    : "time per request";
  return fmt::format("{} {:.{}f}x the pool's median", part, slowness.ratio,
                     slowness.ratio < 10 ? 1 : 0);
}

std::string describe_ejection(const Load& load) {
  if (load.ejection_reason() == EjectionReason::success_rate) {
    return "its success rate is far below that of the other backends";
  }
  const std::uint32_t failures = load.ejected_after();
  if (failures == 0) return "its requests failed before this process started";
  const AttemptResult last = load.last_failure();
  const std::string cause = last.fault ? to_string(*last.fault) : std::to_string(last.status);
  return std::to_string(failures) + (failures == 1 ? " failure: " : " failures in a row: ") + cause;
}

const char* to_string(EjectionReason reason) {
  return reason == EjectionReason::consecutive ? "consecutive" : "success_rate";
}

/// Without memory, what is counted is not shown: responses end in destructors, which must not fail.
RecentResponses& Load::make_recent() noexcept {
  static constinit RecentResponses discarded;
  auto made = std::unique_ptr<RecentResponses>(new (std::nothrow) RecentResponses);
  if (made == nullptr) return discarded;
  RecentResponses* seen = nullptr;
  // Release: another thread that sees the pointer sees the counts constructed.
  if (!recent_.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel)) return *seen;
  return *made.release();
}

RecentSummary Load::recent_summary(Instant now) const {
  const RecentResponses* const made = recent_.load(std::memory_order_acquire);
  return made == nullptr ? RecentSummary{} : made->summary(now);
}

std::uint64_t Load::errors_total() const {
  std::uint64_t sum = failed_responses_total();
  for (const auto& count : errors_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace evenkeel
