#include "pool/admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "evenkeel/base/client_key.h"
#include "pool/eligibility.h"

namespace evenkeel {
namespace {

std::size_t line_of(const AdmissionTicket& ticket) {
  return static_cast<std::size_t>(ticket.hint.priority);
}

/// Tells the waiter's loop. Under the lock: a waiter that is dropped takes it too, so its loop
/// still exists.
void wake(AdmissionTicket& ticket) {
  ticket.loop.post([ticket = ticket.shared_from_this()] {
    if (ticket->signal != nullptr) ticket->signal->raise();
  });
}

/// What the request asks, in terms of a later version of its pool. Nothing: it cannot go there now.
std::optional<Hint> hint_in(const PoolState& to, const AdmissionTicket& ticket) {
  const PoolState& from = *ticket.pool;
  Hint hint = ticket.hint;
  const auto subset = from.backend_set().number_in(to.backend_set(), hint.subset);
  const auto session_subset = from.backend_set().number_in(to.backend_set(), hint.session_subset);
  if (!subset || !session_subset || !may_become_available(to, {.subset = *subset})) return {};
  hint.subset = *subset;
  hint.session_subset = *session_subset;
  if (hint.pinned != nullptr && to.backend_set().find(*hint.pinned) == nullptr) {
    // Its session moves to another backend, unless only the former one knows what it is about.
    if (hint.session && hint.session->has_state) return {};
    hint.pinned = nullptr;
  }
  if (hint.preferred != nullptr && to.backend_set().find(*hint.preferred) == nullptr)
    hint.preferred = nullptr;
  return hint;
}

}  // namespace

// ---- AdmissionTicket --------------------------------------------------------------------------

AdmissionTicket::AdmissionTicket(std::shared_ptr<const PoolState> version, Loop& home_loop,
                                 const Hint& asked)
    : pool(std::move(version)),
      home(*pool),
      hint(asked),
      queue(&pool->queue_of(hint)),
      loop(home_loop),
      client(client_key(hint.tenant, hint.client)) {
  if (pool->schedules(hint)) placed.emplace(pool->scheduled());
}

// ---- Admission --------------------------------------------------------------------------------

void Admission::offer(const SharedBackend& shared, Instant now) {
  std::lock_guard lock(mutex_);
  slots_rule_.offer(shared, now);
}

Admission::Stage Admission::join(AdmissionTicket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  ticket.joined = now;
  enter(*ticket.queue);  // before the rule looks: a slot released after that finds it waiting
  ticket.queue->rule.arrive(ticket, &picker, now);
  if (ticket.stage != Stage::arrives) return ticket.stage;
  if (length_with(*ticket.queue) > ticket.pool->config().limits.queue.size) {
    if (!displace(ticket, now)) {
      drop(ticket, Stage::full, now);
      return Stage::full;
    }
  }
  insert(ticket);
  return ticket.stage = Stage::waits;
}

void Admission::recheck(AdmissionTicket& ticket, Instant now) {
  std::lock_guard lock(mutex_);
  if (ticket.stage == Stage::waits) ticket.queue->rule.recheck(ticket, now);
}

void Admission::move(const PoolState& home, const Loop& loop,
                     const std::shared_ptr<const PoolState>& to, Instant now) {
  std::vector<std::shared_ptr<const PoolState>> former;  // their ends need the lock
  std::lock_guard lock(mutex_);
  std::vector<AdmissionTicket*> moving;
  for_each_queue([&](SubsetQueue& queue) {
    for (Node& line : queue.lines) {
      for (Node* each = line.next; each != &line; each = each->next) {
        AdmissionTicket& ticket = ticket_of(each);
        if (&ticket.home == &home && &ticket.loop == &loop) moving.push_back(&ticket);
      }
    }
  });
  for (AdmissionTicket* const each : moving) {
    former.push_back(each->pool);
    move_locked(*each, to, now);
  }
}

void Admission::move(AdmissionTicket& ticket, const std::shared_ptr<const PoolState>& to,
                     Instant now) {
  const std::shared_ptr<const PoolState> former = ticket.pool;  // its end needs the lock
  std::lock_guard lock(mutex_);
  move_locked(ticket, to, now);
}

void Admission::move_locked(AdmissionTicket& ticket, const std::shared_ptr<const PoolState>& to,
                            Instant now) {
  if (ticket.stage != Stage::waits || ticket.pool == to || !ticket.hint.excluded.empty()) return;
  if (&to->admission() != this) return;  // the pool was gone in the meantime
  const std::optional<Hint> hint = hint_in(*to, ticket);
  if (!hint) return;
  ticket.queue->rule.leave(ticket, true, now);
  end_wait(ticket, Stage::waits);
  ticket.pool = to;
  ticket.hint = *hint;
  ticket.queue = &to->queue_of(*hint);
  ticket.is_sample = false;
  ticket.shadow = Arrival::any_slot;
  ticket.placed.reset();
  if (to->schedules(*hint)) ticket.placed.emplace(to->scheduled());
  enter(*ticket.queue);
  insert(ticket);
  ticket.queue->rule.arrive(ticket, nullptr, now);
}

/// Into its line, which is in order of rank.
void Admission::insert(AdmissionTicket& ticket) {
  const auto line = line_of(ticket);
  const Duration third =
      ticket.pool->config().limits.queue.timeout / static_cast<int>(priority_count);
  ticket.rank = ticket.joined + third * static_cast<int>(line);
  Node& head = ticket.queue->lines[line];
  Node* behind = &head;
  while (behind->previous != &head && ticket.rank < ticket_of(behind->previous).rank) {
    behind = behind->previous;
  }
  ticket.insert_before(*behind);
  ticket.queue->clients.add(ticket.client);
}

void Admission::enter(SubsetQueue& queue) {
  if (queue.length++ == 0) queue.insert_before(queues_);
  ++length_;
  waiting_.fetch_or(queue.mark, std::memory_order_seq_cst);
}

void Admission::leave(SubsetQueue& queue) {
  --length_;
  if (--queue.length > 0) return;
  queue.unlink();
  std::uint64_t marks = 0;
  for_each_queue([&](const SubsetQueue& each) { marks |= each.mark; });
  waiting_.store(marks, std::memory_order_seq_cst);
}

/// Takes it out of the queue.
void Admission::end_wait(AdmissionTicket& ticket, Stage stage) {
  if (ticket.linked()) {
    ticket.unlink();
    ticket.queue->clients.remove(ticket.client);
  }
  leave(*ticket.queue);
  ticket.stage = stage;
}

void Admission::drop(AdmissionTicket& ticket, Stage stage, Instant now) {
  ticket.queue->rule.leave(ticket, false, now);
  end_wait(ticket, stage);
}

void Admission::start(AdmissionTicket& ticket, const BackendPtr& backend, Instant now) {
  ticket.backend = backend;
  ticket.started_at = std::max(now, ticket.joined);  // the clocks of loops lag
  const bool waited = ticket.stage == Stage::waits;
  end_wait(ticket, Stage::started);
  if (waited) wake(ticket);
}

void Admission::refuse(AdmissionTicket& ticket, Duration retry_after) {
  ticket.retry_after = retry_after;
  const bool waited = ticket.stage == Stage::waits;
  end_wait(ticket, Stage::refused);
  if (waited) wake(ticket);
}

/// Requests that wait for these backends, those of other versions of the pool included.
std::uint32_t Admission::length_with(const SubsetQueue& queue) const {
  std::uint32_t length = 0;
  for_each_queue([&](const SubsetQueue& each) {
    if (each.is_for_same_as(queue)) length += each.length;
  });
  return length;
}

/// The newest of the least urgent requests for these backends, if they are less urgent than this.
AdmissionTicket* Admission::least_urgent(const AdmissionTicket& ticket) const {
  AdmissionTicket* newest = nullptr;
  for (std::size_t line = priority_count; newest == nullptr && line-- > line_of(ticket) + 1;) {
    for_each_queue([&](SubsetQueue& each) {
      if (!each.lines[line].linked() || !each.is_for_same_as(*ticket.queue)) return;
      AdmissionTicket& last = ticket_of(each.lines[line].previous);
      if (newest == nullptr || newest->joined < last.joined) newest = &last;
    });
  }
  return newest;
}

/// The last request, of those as urgent as this, of the client that has the most, if that has more
/// than this one's client.
AdmissionTicket* Admission::of_greediest(const AdmissionTicket& ticket) const {
  AdmissionTicket* found = nullptr;
  const std::uint32_t own = ticket.queue->clients.of(ticket.client);
  for_each_queue([&](SubsetQueue& each) {
    if (found != nullptr || each.clients.most() <= own + 1 || !each.is_for_same_as(*ticket.queue))
      return;
    Node& line = each.lines[line_of(ticket)];
    for (Node* node = line.previous; node != &line && found == nullptr; node = node->previous) {
      if (each.clients.gives_way(ticket_of(node).client, own)) found = &ticket_of(node);
    }
  });
  return found;
}

/// Removes a request that has to give way to this one. False: there is none.
bool Admission::displace(const AdmissionTicket& ticket, Instant now) {
  AdmissionTicket* other = least_urgent(ticket);
  if (other == nullptr) other = of_greediest(ticket);
  if (other == nullptr) return false;
  drop(*other, Stage::displaced, now);
  wake(*other);
  return true;
}

std::uint64_t Admission::next_mark() {
  constexpr std::uint32_t subset_bits = 62;  // the first and the last bit have their own meaning
  return std::uint64_t{1} << (1 + marks_given_++ % subset_bits);
}

QueueStats Admission::counts() const {
  std::lock_guard lock(mutex_);
  return {.waiting = length_};
}

Admission::Waiting Admission::waiting_beside(const SubsetQueue& queue) const {
  Waiting waiting;
  std::lock_guard lock(mutex_);
  waiting.same = length_with(queue);
  for_each_queue([&](const SubsetQueue& each) {
    if (each.subset == 0) waiting.any += each.length;
  });
  return waiting;
}

// ---- AdmissionWait ----------------------------------------------------------------------------

AdmissionWait::AdmissionWait(std::shared_ptr<AdmissionTicket> ticket)
    : ticket_(std::move(ticket)), signal_(ticket_->loop) {
  ticket_->signal = &signal_;
}

AdmissionWait::~AdmissionWait() {
  ticket_->signal = nullptr;
  if (ended_) return;
  BackendPtr unused;
  {
    std::lock_guard lock(admission().mutex());
    if (ticket_->stage == AdmissionTicket::Stage::waits) {
      admission().drop(*ticket_, AdmissionTicket::Stage::left, ticket_->loop.now());
    }
    unused = std::move(ticket_->backend);
  }
  if (unused == nullptr) return;
  unused->release();
  if (ticket_->placed) ticket_->placed->released(Decision::State::left);
}

bool AdmissionWait::waits() const {
  std::lock_guard lock(admission().mutex());
  return ticket_->stage == AdmissionTicket::Stage::waits;
}

AdmissionTicket::Stage AdmissionWait::end(Instant now) {
  ended_ = true;
  ticket_->signal = nullptr;
  Admission& admission = this->admission();
  std::lock_guard lock(admission.mutex());
  const AdmissionTicket::Stage stage = ticket_->stage;
  if (stage == AdmissionTicket::Stage::waits) {
    admission.drop(*ticket_, AdmissionTicket::Stage::left, now);
  }
  return stage;
}

}  // namespace evenkeel
