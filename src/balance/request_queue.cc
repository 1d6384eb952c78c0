#include "balance/request_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "evenkeel/base/client_key.h"

namespace evenkeel {
namespace {

// How often the queue looks for slots that became free without a release. One look serves all.
constexpr Duration recheck_interval = std::chrono::milliseconds(200);

}  // namespace

/// One entry of the queue, guarded by the queue's mutex except for `signal`. Shared with the
/// message that reports a grant to the waiter's loop, which may arrive after the waiter is gone.
struct RequestQueue::Ticket : Node, std::enable_shared_from_this<Ticket> {
  Ticket(const PoolState& pool, Loop& home_loop, const Hint& request_hint, Signal& wakeup)
      : state(pool),
        section(pool.queue_section(request_hint)),
        loop(home_loop),
        hint(request_hint),
        client(client_key(hint.tenant, hint.client)),
        signal(&wakeup) {}

  /// The request may go to this backend of its section now.
  bool may_use(const Backend& backend, Instant now) const {
    const Load& load = backend.load();
    if (hint.pinned != nullptr) return hint.pinned == &load && state.pin_holds(hint, now);
    if (!load.in_rotation() || hint.excluded.contains(&backend)) return false;
    const bool takes_overflow = load.takes_overflow(now) && !state.over_memory_guard(load);
    return takes_overflow || !state.deprioritized(load, now) || !state.has_available(hint, now);
  }

  /// The backend that may take the request now, or null.
  const BackendPtr* pick(Picker& picker, Instant now) const {
    if (hint.pinned == nullptr) return picker.pick(hint);
    const BackendPtr* backend = state.find(*hint.pinned, 0);
    if (backend == nullptr || !may_use(**backend, now)) return nullptr;
    return hint.pinned->has_room(hint.pinned->limit()) ? backend : nullptr;
  }

  const PoolState& state;
  QueueSection& section;
  Loop& loop;
  Hint hint;
  const std::uint64_t client;
  BackendPtr granted;
  bool counts = false;  // in its client's share
  bool displaced = false;
  Instant joined{};
  Instant rank{};  // the smallest is served first
  Signal* signal;  // the loop's thread only; null when the waiter is gone
};

void RequestQueue::dispatch(const Load& load, Instant now) {
  std::lock_guard lock(mutex_);
  dispatch_locked(load, now);
}

/// Visits those that wait for one backend or more, in the order in which they are served. The last
/// one may be removed.
class RequestQueue::Order {
 public:
  Order(RequestQueue& queue, const Load& load) : queue_(queue) {
    queue.for_each_section([&](QueueSection& section) {
      section.offered = section.state.find(load, section.subset);
      for (std::size_t i = 0; i < priority_count; ++i) {
        section.next_in_line[i] = section.lines[i].next;
      }
    });
  }

  /// Null after the last.
  Ticket* next() {
    Node** first = nullptr;
    queue_.for_each_section([&](QueueSection& section) {
      if (section.offered == nullptr) return;
      for (std::size_t i = 0; i < priority_count; ++i) {
        Node*& next = section.next_in_line[i];
        if (next == &section.lines[i]) continue;
        if (first == nullptr || ticket(next).rank < ticket(*first).rank) first = &next;
      }
    });
    if (first == nullptr) return nullptr;
    Ticket& found = ticket(*first);
    *first = (*first)->next;
    return &found;
  }

 private:
  static Ticket& ticket(Node* node) { return static_cast<Ticket&>(*node); }

  RequestQueue& queue_;
};

std::size_t RequestQueue::dispatch_locked(const Load& load, Instant now) {
  std::size_t granted = 0;
  Order order(*this, load);
  while (Ticket* const ticket = order.next()) {
    const BackendPtr& backend = *ticket->section.offered;
    if (!ticket->may_use(*backend, now)) continue;
    if (!backend->try_acquire(now)) break;  // full, so no later entry gets a slot either
    grant(*ticket, backend);
    ++granted;
  }
  return granted;
}

void RequestQueue::grant(Ticket& ticket, const BackendPtr& backend) {
  remove(ticket);
  ticket.granted = backend;
  wake(ticket);
}

/// Requests that wait for these backends, those of other versions of the pool included.
std::uint32_t RequestQueue::length_with(const QueueSection& section) const {
  std::uint32_t length = 0;
  for_each_section([&](const QueueSection& each) {
    if (each.is_for_same_as(section)) length += each.length;
  });
  return length;
}

/// The newest of the least urgent requests for these backends, if they are less urgent than this.
RequestQueue::Ticket* RequestQueue::least_urgent(const Ticket& ticket) const {
  Ticket* newest = nullptr;
  const auto own = static_cast<std::size_t>(ticket.hint.priority);
  for (auto line = ticket.section.lines.size(); newest == nullptr && line-- > own + 1;) {
    for_each_section([&](QueueSection& each) {
      if (!each.lines[line].linked() || !each.is_for_same_as(ticket.section)) return;
      auto& last = static_cast<Ticket&>(*each.lines[line].previous);
      if (newest == nullptr || newest->joined < last.joined) newest = &last;
    });
  }
  return newest;
}

/// The last request, of those as urgent as this, of the client that has the most, if that has more
/// than this one's client.
RequestQueue::Ticket* RequestQueue::of_greediest(const Ticket& ticket) const {
  Ticket* found = nullptr;
  const std::uint32_t own = ticket.section.clients.of(ticket.client);
  for_each_section([&](QueueSection& each) {
    if (found != nullptr || each.clients.most() <= own + 1 || !each.is_for_same_as(ticket.section))
      return;
    Node& line = each.lines[static_cast<std::size_t>(ticket.hint.priority)];
    for (Node* node = line.previous; node != &line && found == nullptr; node = node->previous) {
      auto& other = static_cast<Ticket&>(*node);
      if (other.counts && each.clients.gives_way(other.client, own)) found = &other;
    }
  });
  return found;
}

/// Removes a request that has to give way to this one.
bool RequestQueue::displace(const Ticket& ticket) {
  Ticket* other = least_urgent(ticket);
  if (other == nullptr) other = of_greediest(ticket);
  if (other == nullptr) return false;
  remove(*other);
  other->displaced = true;
  wake(*other);
  return true;
}

// Holds the lock to its end: a waiter that is dropped takes the lock too, so its loop still exists.
// Without memory for the message the waiter finds out at its next look: a lease that ends serves
// the queue, and must not fail.
void RequestQueue::wake(Ticket& ticket) noexcept {
  try {
    ticket.loop.post([ticket = ticket.shared_from_this()] {
      if (ticket->signal != nullptr) ticket->signal->raise();
    });
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

// If the last entry of a line could use every slot that this one can, there is no slot to look for.
bool RequestQueue::should_pick(const Ticket& ticket) {
  if (ticket.hint.pinned != nullptr) return true;
  const auto is_covered = [](const QueueSection& section) {
    return std::any_of(section.lines.begin(), section.lines.end(), [](const Node& line) {
      if (!line.linked()) return false;
      const Hint& last = static_cast<const Ticket&>(*line.previous).hint;
      return last.excluded.empty() && last.pinned == nullptr;
    });
  };
  return !is_covered(ticket.section) && !is_covered(ticket.state.queue_section({}));
}

void RequestQueue::remove(Ticket& ticket) {
  ticket.unlink();
  if (ticket.counts) ticket.section.clients.remove(ticket.client);
  leave(ticket.section);
}

/// Without memory it has no part in the share.
void RequestQueue::count_client(Ticket& ticket) noexcept {
  try {
    ticket.section.clients.add(ticket.client);
    ticket.counts = true;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

void RequestQueue::enter(QueueSection& section) {
  if (section.length++ == 0) section.insert_before(sections_);
  ++length_;
  waiting_.fetch_or(section.mark, std::memory_order_seq_cst);
}

void RequestQueue::leave(QueueSection& section) {
  --length_;
  if (--section.length > 0) return;
  section.unlink();
  std::uint64_t marks = 0;
  for_each_section([&](const QueueSection& each) { marks |= each.mark; });
  waiting_.store(marks, std::memory_order_seq_cst);
}

std::uint64_t RequestQueue::next_mark() {
  constexpr std::uint32_t bits = 64;
  return std::uint64_t{1} << (1 + marks_given_++ % (bits - 1));
}

RequestQueue::JoinResult RequestQueue::join(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  QueueSection& section = ticket.section;
  enter(section);  // before the last look: a slot released after that look finds a waiting request
  const auto line = static_cast<std::size_t>(ticket.hint.priority);
  const bool has_waited = ticket.hint.queued_since != Instant{};
  ticket.joined = has_waited ? ticket.hint.queued_since : now;
  ticket.rank = ticket.joined + ticket.state.spec().queue.timeout / 3 * static_cast<int>(line);
  ticket.hint.now = now;

  if (should_pick(ticket)) {
    while (const BackendPtr* backend = ticket.pick(picker, now)) {
      dispatch_locked((*backend)->load(), now);
      if (!(*backend)->try_acquire(now)) continue;
      ticket.granted = *backend;
      leave(section);
      if (has_waited) count_wait_locked(now - ticket.joined);
      return JoinResult::picked;
    }
  }
  const bool is_full = !has_waited && length_with(section) > ticket.state.spec().queue.size;
  if (is_full && displace(ticket)) {
    ++counts_.full_total;
    ++counts_.displaced_total;
  } else if (is_full) {
    leave(section);
    ++counts_.full_total;
    return JoinResult::full;
  }
  Node* behind = &section.lines[line];
  while (behind->previous != &section.lines[line] &&
         ticket.rank < static_cast<Ticket*>(behind->previous)->rank) {
    behind = behind->previous;
  }
  count_client(ticket);
  ticket.insert_before(*behind);
  return JoinResult::queued;
}

void RequestQueue::recheck(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  if (ticket.granted || ticket.displaced) return;
  if (ticket.hint.excluded.empty() && ticket.hint.pinned == nullptr) {
    if (now - ticket.section.last_recheck < recheck_interval) return;
    ticket.section.last_recheck = now;
  }
  ticket.hint.now = now;
  while (!ticket.granted) {
    const BackendPtr* backend = ticket.pick(picker, now);
    if (backend == nullptr || dispatch_locked((*backend)->load(), now) == 0) return;
  }
}

void RequestQueue::count_wait(Duration waited) {
  std::lock_guard lock(mutex_);
  count_wait_locked(waited);
}

void RequestQueue::count_wait_locked(Duration waited) {
  ++counts_.waited_total;
  counts_.waited_sum += waited;
}

QueueStats RequestQueue::counts() const {
  std::lock_guard lock(mutex_);
  QueueStats counts = counts_;
  counts.waiting = length_;
  return counts;
}

RequestQueue::Waiting RequestQueue::waiting_beside(const QueueSection& section) const {
  Waiting waiting;
  std::lock_guard lock(mutex_);
  waiting.same = length_with(section);
  for_each_section([&](const QueueSection& each) {
    if (each.subset == 0) waiting.any += each.length;
  });
  return waiting;
}

RequestQueue::QueuedRequest::QueuedRequest(const PoolState& state, Loop& loop, const Hint& hint)
    : queue_(state.request_queue()),
      signal_(loop),
      ticket_(std::make_shared<Ticket>(state, loop, hint, signal_)) {}

RequestQueue::QueuedRequest::~QueuedRequest() {
  ticket_->signal = nullptr;
  if (left_) return;
  BackendPtr granted_backend;
  {
    std::lock_guard lock(queue_.mutex_);
    if (!ticket_->hint.has_moved()) ++queue_.counts_.abandoned_total;
    granted_backend = std::move(ticket_->granted);
    if (!granted_backend && !ticket_->displaced) queue_.remove(*ticket_);
  }
  if (granted_backend) granted_backend->release();
}

bool RequestQueue::QueuedRequest::join(Picker& picker, Instant now) {
  left_ = queue_.join(*ticket_, picker, now) != JoinResult::queued;
  return !left_ || ticket_->granted;
}

RequestQueue::Place RequestQueue::QueuedRequest::place() const {
  std::lock_guard lock(queue_.mutex_);
  if (ticket_->displaced) return Place::displaced;
  return ticket_->granted != nullptr ? Place::granted : Place::waiting;
}

void RequestQueue::QueuedRequest::recheck(Picker& picker, Instant now) {
  queue_.recheck(*ticket_, picker, now);
}

BackendPtr RequestQueue::QueuedRequest::take(Instant now) {
  if (left_) return std::move(ticket_->granted);
  left_ = true;
  std::lock_guard lock(queue_.mutex_);
  if (ticket_->displaced) return nullptr;
  if (!ticket_->granted) {
    queue_.remove(*ticket_);
    ++queue_.counts_.timeout_total;
    return nullptr;
  }
  queue_.count_wait_locked(now - ticket_->joined);
  return std::move(ticket_->granted);
}

}  // namespace evenkeel
