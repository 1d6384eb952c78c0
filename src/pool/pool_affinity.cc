// How a pool places the requests of sessions that it pins to backends.
#include <algorithm>
#include <utility>

#include "evenkeel/pool/pool.h"
#include "pool/admission.h"
#include "pool/eligibility.h"

namespace evenkeel {
namespace {

// Requests that a backend may have beyond its share before soft sessions leave it.
constexpr std::uint32_t saturated_from = 4;
constexpr double saturated_factor = 1.25;  // of its share
constexpr std::size_t max_sampled = 32;    // backends

/// True if the pin of the request's session to this backend counts: the session does not begin
/// anew, and the route lets it stay. No route moves a session whose state is there.
bool counts_pin(const BackendSet& backends, const Hint& hint, const Backend& backend) {
  if (hint.session->has_state) return !hint.session->starts;
  return backends.contains(hint.session_subset, backend.shared());
}

}  // namespace

/// Like `acquire`, it neither suspends nor allocates while the backend has a free slot.
Task<Result<Lease>> Pool::acquire_for_session(const Hint& hint, Instant deadline) {
  if (hint.session->is_soft) return acquire_for_soft_session(hint, deadline);
  const Affinity& affinity = *state_->affinity();
  const Affinity::Pin pin = affinity.find(*hint.session, loop_.now());
  if (pin.has_state()) {
    if (pin.backend == nullptr) return session_lost_error();
    if (!hint.session->has_state) {
      Hint bound = hint;
      bound.session->has_state = true;
      return acquire_for_session(bound, deadline);
    }
  }
  if (pin.backend != nullptr && counts_pin(state_->backend_set(), hint, **pin.backend)) {
    const Backend& backend = **pin.backend;
    if (!hint.excluded.contains(&backend)) {
      // One that is drained keeps its sessions, but the scheduler sends nothing there.
      const bool scheduled = state_->schedules(hint) && backend.state().in_rotation();
      const bool others_wait = state_->admission().is_awaited(backend.shared());
      if (scheduled || others_wait || !backend.try_acquire(loop_.now())) {
        return wait_for_pinned(hint, backend.shared(), deadline);
      }
      affinity.count_hit(*hint.session);
      explain_session(hint, backend);
      Lease lease = Lease::adopt(*pin.backend);
      lease.set_in_session();
      if (pin.confirmed) lease.set_session_confirmed();
      return lease;
    }
    if (hint.session->has_state && !hint.session->began_here) return no_backend_error();
  }
  const BackendPtr* backend = pick_backend(hint);
  if (backend == nullptr) {
    if (!may_become_available(*state_, hint)) return acquire_elsewhere(hint, deadline);
    return wait_and_pin(hint, deadline);
  }
  Lease lease = Lease::adopt(*backend);
  lease.set_begins_session();
  if (affinity.pin(*hint.session, pin, *backend, loop_.now())) return lease;
  // Another request of the session was placed meanwhile.
  lease.release();
  return acquire_for_session(hint, deadline);
}

/// Records that the request went where its session is, if it is recorded at all.
void Pool::explain_session(const Hint& hint, const Backend& backend) const {
  if (hint.explained_id.empty()) [[likely]]
    return;
  Hint timed = hint;
  timed.now = loop_.now();
  state_->picks().add(describe_placement(*state_, timed, backend, "session"));
}

void Pool::confirm_session(const SessionHint& session, const Backend& backend) {
  state_->affinity()->confirm(session, backend, loop_.now());
}

/// Waits for a slot of the backend that the session is pinned to. If that is gone, any other will
/// do.
Task<Result<Lease>> Pool::wait_for_pinned(Hint hint, const SharedBackend& pinned,
                                          Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->config().limits.queue.timeout);
  hint.pinned = &pinned;
  const RequestCost* const cost = hint.cost;
  if (!pinned.state.in_rotation()) hint.cost = nullptr;
  auto lease = co_await queue_up(hint, until);
  hint.cost = cost;
  if (lease && &lease->backend()->shared() != &pinned) {
    // A later version of the pool does not have that one.
    co_return followed(std::move(*lease), *hint.session);
  }
  if (lease) {
    lease->set_in_session();
    state_->affinity()->count_hit(*hint.session);
  }
  if (lease || lease.error().fault != Fault::no_backend) co_return lease;
  hint.pinned = nullptr;
  auto placed = co_await acquire_for_session(hint, until);
  co_return placed;
}

Error Pool::session_lost_error() const {
  state_->affinity()->count_lost();
  return {.fault = Fault::session_lost,
          .detail =
              "the server that knows this id is gone, and with it what the id stands for; "
              "begin anew without it"};
}

/// The backend of a soft session is the first choice; otherwise the request is placed like any
/// other, and the session is where that is.
Task<Result<Lease>> Pool::acquire_for_soft_session(Hint hint, Instant deadline) {
  const SessionHint session = *hint.session;
  hint.session.reset();
  const BackendPtr* const home = home_of(hint, session);
  if (home != nullptr && state_->schedules(hint)) {
    hint.preferred = &(*home)->shared();
  } else if (home != nullptr && !is_saturated(**home) && (*home)->try_acquire(loop_.now())) {
    explain_session(hint, **home);
    Lease lease = Lease::adopt(*home);
    lease.set_in_session();
    return followed(std::move(lease), session);
  }
  auto placed = acquire(hint, deadline);
  if (!placed.ready()) return follow_when_placed(std::move(placed), session);
  auto lease = placed.take();
  if (!lease) return lease;
  return followed(std::move(*lease), session);
}

Task<Result<Lease>> Pool::follow_when_placed(Task<Result<Lease>> placed, SessionHint session) {
  auto lease = co_await placed;
  if (!lease) co_return lease;
  co_return followed(std::move(*lease), session);
}

Lease Pool::followed(Lease lease, const SessionHint& session) const {
  const bool confirmed = state_->affinity()->follow(session, lease.backend(), loop_.now());
  if (confirmed) lease.set_session_confirmed();
  return lease;
}

/// Where a soft session was, or the one whose prompt it shares. Null: nowhere that it may go now.
const BackendPtr* Pool::home_of(const Hint& hint, const SessionHint& session) const {
  const Affinity& affinity = *state_->affinity();
  const BackendPtr* home = affinity.find(session, loop_.now()).backend;
  if (home == nullptr && session.parent != 0)
    home = affinity.find({.key = session.parent}, loop_.now()).backend;
  if (home == nullptr || hint.excluded.contains(home->get())) return nullptr;
  const bool may_go = (*home)->state().in_rotation() &&
                      state_->backend_set().contains(hint.subset, (*home)->shared());
  return may_go ? home : nullptr;
}

/// True if a soft session leaves the backend: it has no free slot, is avoided, or has more requests
/// than `saturated_from` and 1.25 times its share of what all have, by weight. Looks at a few dozen
/// backends.
bool Pool::is_saturated(const Backend& backend) const {
  const SharedBackend& shared = backend.shared();
  if (!shared.slots.has_room() || deprioritized(*state_, shared, loop_.now())) return true;
  if (state_->admission().is_awaited(shared)) return true;
  const std::uint32_t own = shared.slots.in_flight();
  if (own < saturated_from) return false;
  const Backends& backends = state_->backends();
  const std::size_t step = backends.size() / max_sampled + 1;
  double in_flight = 0;
  double weights = 0;
  for (std::size_t i = own % step; i < backends.size(); i += step) {
    const SharedBackend& other = backends[i]->shared();
    if (!other.state.in_rotation() || deprioritized(*state_, other, loop_.now())) continue;
    in_flight += other.slots.in_flight();
    weights += std::max(backends[i]->spec().config.weight, 1u);
  }
  if (weights == 0) return false;
  const double share = in_flight / weights * std::max(backend.spec().config.weight, 1u);
  return own >= saturated_from + saturated_factor * share;
}

/// Waits for a slot of any backend, then pins the session to that.
Task<Result<Lease>> Pool::wait_and_pin(Hint hint, Instant deadline) {
  const Instant until = std::min(deadline, loop_.now() + state_->config().limits.queue.timeout);
  const Affinity& affinity = *state_->affinity();
  auto placed = co_await queue_up(hint, until);
  if (!placed && placed.error().fault == Fault::no_backend && hint.subset != 0) {
    auto elsewhere = co_await acquire_elsewhere(hint, until);
    co_return elsewhere;
  }
  if (!placed) co_return placed;
  const Affinity::Pin pin = affinity.find(*hint.session, loop_.now());
  const BackendPtr& backend = placed->backend();
  const bool is_elsewhere = pin.backend != nullptr &&
                            &(*pin.backend)->shared() != &backend->shared() &&
                            !hint.excluded.contains(pin.backend->get()) &&
                            counts_pin(state_->backend_set(), hint, **pin.backend);
  if (!is_elsewhere && affinity.pin(*hint.session, pin, backend, loop_.now())) {
    placed->set_begins_session();
    co_return placed;
  }
  placed->release();
  auto again = co_await acquire_for_session(hint, until);
  co_return again;
}

}  // namespace evenkeel
