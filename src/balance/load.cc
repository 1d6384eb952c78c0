#include "evenkeel/balance/load.h"

#include <algorithm>

namespace evenkeel {
namespace {

Duration failure_backoff(std::uint32_t steps) {
  return std::min(Load::initial_failure_backoff * (1 << std::min(steps - 1, 8u)),
                  Load::max_backoff);
}

}  // namespace

void Load::back_off(Instant now) {
  const std::uint32_t failures = connect_failures();
  Duration::rep until = live_.backoff_until.load(std::memory_order_relaxed);
  const Duration::rep current = now.time_since_epoch().count();
  if (failures > 0 && until != 0 && current < until) return;

  const Duration wait = std::min(initial_backoff * (1 << std::min(failures, 8u)), max_backoff);
  const Duration::rep next = std::max<Duration::rep>({current + wait.count(), until, 1});
  if (live_.backoff_until.compare_exchange_strong(until, next, std::memory_order_relaxed)) {
    live_.connect_failures.fetch_add(1, std::memory_order_relaxed);
  }
}

void Load::begin_trial(Instant now) {
  if (has_connect_failures()) return back_off(now);
  const std::uint32_t steps = failures_.backoffs.load(std::memory_order_relaxed);
  if (steps > 0) avoid_until(now + failure_backoff(steps));
}

bool Load::recover() {
  if (!has_connect_failures()) return false;
  live_.connect_failures.store(0, std::memory_order_relaxed);
  // A server that refused connections and accepts them again has been restarted.
  if (connect_fault() == Fault::connect_failed) clear_failures();
  if (failures_in_a_row() > 0) return false;
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

void Load::record_failed(const AttemptResult& result, Instant now) {
  failures_.last_status.store(result.status, std::memory_order_relaxed);
  if (result.fault) failures_.last_fault.store(*result.fault, std::memory_order_relaxed);
  failures_.total.fetch_add(1, std::memory_order_relaxed);
  failures_.in_a_row.fetch_add(1, std::memory_order_relaxed);
  if (in_backoff(now)) return;  // requests that fail together are one failure for the back-off
  const std::uint32_t steps = failures_.backoffs.fetch_add(1, std::memory_order_relaxed) + 1;
  avoid_until(now + failure_backoff(steps));
}

void Load::record_overloaded(Duration retry_after, Instant now) {
  const std::uint32_t before = failures_.overloads_in_a_row.load(std::memory_order_relaxed);
  const bool parked_already = parked(now);
  // A hundred refusals at once are one.
  if (!parked_already) failures_.overloads_in_a_row.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t doublings = parked_already && before > 0 ? before - 1 : before;
  const Duration wait =
      retry_after > Duration{} ? retry_after : initial_park * (1 << std::min(doublings, 8u));
  const Instant until = now + std::min(wait, max_park);
  failures_.parked_until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  avoid_until(until);
}

bool Load::end_failures(Instant now) {
  clear_failures();
  if (parked(now) || unreachable(now)) return false;
  failures_.overloads_in_a_row.store(0, std::memory_order_relaxed);
  live_.connect_failures.store(0, std::memory_order_relaxed);
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

AttemptResult Load::last_failure() const {
  AttemptResult failure{.outcome = AttemptOutcome::failed,
                        .status = failures_.last_status.load(std::memory_order_relaxed)};
  if (failure.status == 0) failure.fault = failures_.last_fault.load(std::memory_order_relaxed);
  return failure;
}

void Load::clear_failures() {
  failures_.in_a_row.store(0, std::memory_order_relaxed);
  failures_.backoffs.store(0, std::memory_order_relaxed);
}

/// Never shortens a back-off.
void Load::avoid_until(Instant until) {
  const Duration::rep wanted = std::max<Duration::rep>(until.time_since_epoch().count(), 1);
  Duration::rep seen = live_.backoff_until.load(std::memory_order_relaxed);
  while (seen < wanted &&
         !live_.backoff_until.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
  }
}

std::uint64_t Load::errors_total() const {
  std::uint64_t sum = 0;
  for (const auto& count : errors_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace evenkeel
