#include "pool/slots_rule.h"

#include <algorithm>

#include "pool/admission.h"
#include "pool/eligibility.h"

namespace evenkeel {
namespace {

// How often a queue looks for slots that became free without a release. One look serves all.
constexpr Duration recheck_interval = std::chrono::milliseconds(200);

/// True if the request may go to this backend of its version now.
bool may_use(const AdmissionTicket& ticket, const Backend& backend, Instant now) {
  const SharedBackend& shared = backend.shared();
  const Hint& hint = ticket.hint;
  const PoolState& pool = *ticket.pool;
  if (hint.pinned != nullptr) return hint.pinned == &shared && pin_holds(hint, now);
  if (!shared.state.in_rotation() || hint.excluded.contains(&backend)) return false;
  return !deprioritized(pool, shared, now) || !has_available(pool, hint, now);
}

/// The backend that may take the request now, or null.
const BackendPtr* pick(const AdmissionTicket& ticket, Picker& picker, Instant now) {
  const SharedBackend* const pinned = ticket.hint.pinned;
  if (pinned == nullptr) return picker.pick(ticket.hint);
  const BackendPtr* backend = ticket.pool->backend_set().find(*pinned);
  if (backend == nullptr || !may_use(ticket, **backend, now)) return nullptr;
  return pinned->slots.has_room() ? backend : nullptr;
}

/// True if there may be a free slot: not if the last entry of a line could use every slot that
/// this one can.
bool should_pick(const AdmissionTicket& ticket) {
  if (ticket.hint.pinned != nullptr) return true;
  const auto is_covered = [](const SubsetQueue& queue) {
    return std::any_of(queue.lines.begin(), queue.lines.end(), [](const Node& line) {
      if (!line.linked()) return false;
      const Hint& last = ticket_of(line.previous).hint;
      return last.excluded.empty() && last.pinned == nullptr;
    });
  };
  return !is_covered(*ticket.queue) && !is_covered(ticket.pool->queue_of({}));
}

}  // namespace

/// Visits the requests that wait for one backend or more, in the order in which they are served.
/// The last one may be removed.
class SlotsRule::Order {
 public:
  Order(SlotsRule& rule, const SharedBackend& shared) : rule_(rule) {
    rule_.admission_.for_each_queue([&](SubsetQueue& queue) {
      queue.offered =
          &queue.rule == &rule_ ? queue.state.backend_set().find(shared, queue.subset) : nullptr;
      for (std::size_t i = 0; i < priority_count; ++i) queue.next_in_line[i] = queue.lines[i].next;
    });
  }

  /// Null after the last.
  AdmissionTicket* next() {
    Node** first = nullptr;
    rule_.admission_.for_each_queue([&](SubsetQueue& queue) {
      if (queue.offered == nullptr) return;
      for (std::size_t i = 0; i < priority_count; ++i) {
        Node*& next = queue.next_in_line[i];
        if (next == &queue.lines[i]) continue;
        if (first == nullptr || ticket_of(next).rank < ticket_of(*first).rank) first = &next;
      }
    });
    if (first == nullptr) return nullptr;
    AdmissionTicket& found = ticket_of(*first);
    *first = (*first)->next;
    return &found;
  }

 private:
  SlotsRule& rule_;
};

void SlotsRule::offer(const SharedBackend& shared, Instant now) {
  Order order(*this, shared);
  while (AdmissionTicket* const ticket = order.next()) {
    const BackendPtr& backend = *ticket->queue->offered;
    if (!may_use(*ticket, *backend, now)) continue;
    if (!backend->try_acquire(now)) break;  // full, so no later entry gets a slot either
    admission_.start(*ticket, backend, now);
  }
}

void SlotsRule::arrive(AdmissionTicket& ticket, Picker* picker, Instant now) {
  if (picker == nullptr) return look_everywhere(ticket, now);
  if (!should_pick(ticket)) return;
  ticket.hint.now = now;
  while (const BackendPtr* backend = pick(ticket, *picker, now)) {
    offer((*backend)->shared(), now);
    if (!(*backend)->try_acquire(now)) continue;
    return admission_.start(ticket, *backend, now);
  }
}

void SlotsRule::recheck(AdmissionTicket& ticket, Instant now) {
  if (ticket.hint.excluded.empty() && ticket.hint.pinned == nullptr) {
    if (now - ticket.queue->last_recheck < recheck_interval) return;
    ticket.queue->last_recheck = now;
  }
  look_everywhere(ticket, now);
}

/// Offers the free slots that the request may use, until it has one.
void SlotsRule::look_everywhere(AdmissionTicket& ticket, Instant now) {
  if (ticket.hint.pinned != nullptr) return offer(*ticket.hint.pinned, now);
  for (const BackendPtr& backend : ticket.pool->backend_set().of(ticket.hint.subset)) {
    const SharedBackend& shared = backend->shared();
    if (!shared.slots.has_room() || !may_use(ticket, *backend, now)) continue;
    offer(shared, now);
    if (ticket.stage != AdmissionTicket::Stage::waits) return;
  }
}

}  // namespace evenkeel
