// How a pool places the requests of sessions that it pins to backends.
#include <algorithm>
#include <utility>

#include "balance/affinity.h"
#include "balance/request_queue.h"
#include "evenkeel/balance/pool.h"

namespace evenkeel {

/// Like `acquire`, it neither suspends nor allocates while the backend has a free slot.
Task<Result<Lease>> Pool::acquire_for_session(const Hint& hint, Instant deadline) {
  const Affinity& affinity = *state_->affinity();
  const Affinity::Pin pin = affinity.find(*hint.session, loop_.now());
  if (pin.backend != nullptr && state_->counts_pin(hint, **pin.backend)) {
    const Backend& backend = **pin.backend;
    if (!hint.excluded.contains(&backend)) {
      // One that is drained keeps its sessions, but the scheduler sends nothing there.
      const bool scheduled = is_scheduled(hint) && backend.load().in_rotation();
      const bool others_wait = state_->request_queue().is_awaited(backend.load());
      if (scheduled || others_wait || !backend.try_acquire(loop_.now())) {
        return wait_for_pinned(hint, backend.load(), deadline);
      }
      affinity.count_hit(*hint.session);
      count_earlier_wait(hint);
      Lease lease = Lease::adopt(*pin.backend);
      if (pin.confirmed) lease.set_session_confirmed();
      return lease;
    }
    if (hint.session->is_sequence && !hint.session->began_here) return no_backend_error();
  }
  const BackendPtr* backend = pick_backend(hint);
  if (backend == nullptr) {
    if (!state_->may_become_available(hint)) return acquire_elsewhere(hint, deadline);
    return wait_and_pin(hint, deadline);
  }
  Lease lease = Lease::adopt(*backend);
  lease.set_begins_session();
  if (affinity.pin(*hint.session, pin, *backend, loop_.now())) {
    count_earlier_wait(hint);
    return lease;
  }
  // Another request of the session was placed meanwhile.
  lease.release();
  return acquire_for_session(hint, deadline);
}

void Pool::confirm_session(const SessionHint& session, const Backend& backend) {
  state_->affinity()->confirm(session, backend, loop_.now());
}

/// Waits for a slot of the backend that the session is pinned to. If that is gone, any other will
/// do.
Task<Result<Lease>> Pool::wait_for_pinned(Hint hint, const Load& pinned, Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->spec().queue.timeout);
  hint.pinned = &pinned;
  const Arrival* const arrival = hint.arrival;
  if (!pinned.in_rotation()) hint.arrival = nullptr;
  auto lease = co_await wait_in_queue(hint, until);
  hint.arrival = arrival;
  if (lease) state_->affinity()->count_hit(*hint.session);
  if (lease || lease.error().fault != Fault::no_backend) co_return lease;
  hint.pinned = nullptr;
  auto placed = co_await acquire_for_session(hint, until);
  co_return placed;
}

/// Waits for a slot of any backend, then pins the session to that.
Task<Result<Lease>> Pool::wait_and_pin(Hint hint, Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->spec().queue.timeout);
  const Affinity& affinity = *state_->affinity();
  auto placed = co_await wait_in_queue(hint, until);
  if (!placed && placed.error().fault == Fault::no_backend && hint.subset != 0) {
    auto elsewhere = co_await acquire_elsewhere(hint, until);
    co_return elsewhere;
  }
  if (!placed) co_return placed;
  const Affinity::Pin pin = affinity.find(*hint.session, loop_.now());
  const BackendPtr& backend = placed->backend();
  const bool is_elsewhere = pin.backend != nullptr && *pin.backend != backend &&
                            !hint.excluded.contains(pin.backend->get()) &&
                            state_->counts_pin(hint, **pin.backend);
  if (!is_elsewhere && affinity.pin(*hint.session, pin, backend, loop_.now())) {
    placed->set_begins_session();
    co_return placed;
  }
  placed->release();
  auto again = co_await acquire_for_session(hint, until);
  co_return again;
}

}  // namespace evenkeel
