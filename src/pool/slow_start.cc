#include "pool/slow_start.h"

#include <algorithm>
#include <cmath>

#include "pool/admission.h"

namespace evenkeel {
namespace {

constexpr double first_share = 0.1;

}  // namespace

void SlowStart::limit(const Backend& backend, std::uint32_t slots, bool ramps) {
  backend.slots().set_ramps(ramps);
  if (backend.slots().limit() != slots) backend.limit(slots);
}

void SlowStart::tick(const PoolState& pool, Instant now) {
  const Duration duration = pool.config().slow_start;
  if (duration == Duration{} && entries_.empty()) return;

  const bool first_tick = entries_.empty();
  const bool young = pool_began_ == Instant{} || now - pool_began_ < duration;
  sync_records(entries_, pool.backends(), [](const Backend&) { return Entry{}; });
  double serving = 0;
  bool some_without_ramp = false;
  for (const auto& backend : pool.backends()) {
    const SharedBackend& shared = backend->shared();
    Entry& entry = entries_.at(&shared);
    const bool serves = shared.state.in_rotation() && shared.state.serving();
    if (serves && !entry.serves && !first_tick && !young) {
      entry.began = now;
      entry.time = entry.was_out ? duration : std::min(duration, now - entry.left);
    }
    if (serves || entry.serves) entry.left = now;
    entry.was_out = !serves && (entry.was_out || !shared.state.in_rotation());
    entry.serves = serves;
    if (!serves || now - entry.began >= std::min(entry.time, duration)) entry.began = Instant{};
    serving += serves;
    some_without_ramp |= serves && entry.began == Instant{};
  }
  if (serving > 0 && pool_began_ == Instant{}) pool_began_ = now;

  const double waiting =
      pool.admission().has_waiting() ? static_cast<double>(pool.queue().waiting) : 0;
  const double fair =
      (static_cast<double>(pool.in_flight()) + waiting + 1) / std::max(serving, 1.0);
  for (const auto& backend : pool.backends()) {
    const Entry& entry = entries_.at(&backend->shared());
    const std::uint32_t full = backend->spec().max_in_flight;
    // Those that wait get its slots in the moment in which it returns, before the next tick. One
    // that is drained or a standby backend still serves its sessions, as before.
    const bool is_gone =
        backend->state().other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0;
    const bool tries = entry.was_out && backend->state().in_rotation();
    const bool would_ramp = (is_gone || tries) && !first_tick && !young && duration > Duration{};
    if ((entry.began == Instant{} && !would_ramp) || !some_without_ramp) {
      limit(*backend, full, false);
      continue;
    }
    const bool ramps = entry.began != Instant{};
    const double passed = ramps ? seconds_of(now - entry.began) / seconds_of(entry.time) : 0;
    const double share = first_share + (1 - first_share) * passed;
    const double most = full > 0 ? std::min<double>(fair, full) : fair;
    limit(*backend, static_cast<std::uint32_t>(std::ceil(std::max(1.0, most * share))), true);
  }
  if (duration == Duration{}) entries_.clear();
}

}  // namespace evenkeel
