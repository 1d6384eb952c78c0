#include "balance/request_queue.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/memory_reserve.h"

namespace evenkeel {
namespace {

// How often the queue looks for slots that became free without a release. One look serves all.
constexpr Duration recheck_interval = std::chrono::milliseconds(200);

}  // namespace

/// One entry of the queue, guarded by the queue's mutex except for `signal`. Shared with the
/// message that reports a grant to the waiter's loop, which may arrive after the waiter is gone.
struct RequestQueue::Ticket : Node, std::enable_shared_from_this<Ticket> {
  Ticket(const PoolState& pool, Loop& home_loop, const Hint& request_hint, Signal& wakeup)
      : state(pool), loop(home_loop), hint(request_hint), signal(&wakeup) {}

  /// The backend of the waiter's pool with these counters, if the request may go there now.
  const BackendPtr* usable(const Load& load, Instant now) const {
    const BackendPtr* backend = state.find(load);
    if (hint.pinned != nullptr) {
      return hint.pinned == &load && state.pin_holds(hint, now) ? backend : nullptr;
    }
    if (backend == nullptr || !load.in_rotation() || hint.excluded.contains(backend->get()) ||
        !state.in_subset(hint.subset, **backend)) {
      return nullptr;
    }
    const bool takes_overflow = load.takes_overflow(now) && !state.over_memory_guard(load);
    if (takes_overflow || !state.deprioritized(load, now)) return backend;
    return state.has_available(hint, now) ? nullptr : backend;
  }

  /// The backend that may take the request now, or null.
  const BackendPtr* pick(Picker& picker, Instant now) const {
    if (hint.pinned == nullptr) return picker.pick(hint);
    const BackendPtr* backend = usable(*hint.pinned, now);
    return backend != nullptr && hint.pinned->has_room(hint.pinned->limit()) ? backend : nullptr;
  }

  const PoolState& state;
  Loop& loop;
  Hint hint;
  BackendPtr granted;
  bool displaced = false;
  Instant joined{};
  Instant rank{};  // the smallest is served first
  Signal* signal;  // the loop's thread only; null when the waiter is gone
};

void RequestQueue::dispatch(const Load& load, Instant now) {
  const NoWaitForMemory no_wait;  // workers need the lock to end requests
  std::lock_guard lock(mutex_);
  dispatch_locked(load, now);
}

/// Visits the tickets in the order in which they are served. The last one may be removed.
class RequestQueue::Order {
 public:
  explicit Order(RequestQueue& queue) : queue_(queue) {
    for (std::size_t i = 0; i < next_.size(); ++i) next_[i] = queue.lines_[i].next;
  }

  /// Null after the last.
  Ticket* next() {
    Node** first = nullptr;
    for (std::size_t i = 0; i < next_.size(); ++i) {
      if (next_[i] == &queue_.lines_[i]) continue;
      if (first == nullptr || ticket(next_[i]).rank < ticket(*first).rank) first = &next_[i];
    }
    if (first == nullptr) return nullptr;
    Ticket& found = ticket(*first);
    *first = (*first)->next;
    return &found;
  }

 private:
  static Ticket& ticket(Node* node) { return static_cast<Ticket&>(*node); }

  RequestQueue& queue_;
  std::array<Node*, priority_count> next_;
};

std::size_t RequestQueue::dispatch_locked(const Load& load, Instant now) {
  std::size_t granted = 0;
  Order order(*this);
  while (Ticket* const ticket = order.next()) {
    const BackendPtr* backend = ticket->usable(load, now);
    if (backend == nullptr) continue;
    if (!(*backend)->try_acquire(now)) break;  // full, so no later entry gets a slot either
    grant(*ticket, *backend);
    ++granted;
  }
  return granted;
}

void RequestQueue::grant(Ticket& ticket, const BackendPtr& backend) {
  remove(ticket);
  ticket.granted = backend;
  wake(ticket);
}

/// Removes the newest of the least urgent requests, if they are less urgent than this.
bool RequestQueue::displace(Priority priority) {
  for (auto line = lines_.size(); line-- > static_cast<std::size_t>(priority) + 1;) {
    if (!lines_[line].linked()) continue;
    auto& ticket = static_cast<Ticket&>(*lines_[line].previous);
    remove(ticket);
    ticket.displaced = true;
    wake(ticket);
    return true;
  }
  return false;
}

// Holds the lock to its end: a waiter that is dropped takes the lock too, so its loop still exists.
void RequestQueue::wake(Ticket& ticket) {
  ticket.loop.post([ticket = ticket.shared_from_this()] {
    if (ticket->signal != nullptr) ticket->signal->raise();
  });
}

// If the last entry of a line could use every slot that this one can, there is no slot to look for.
bool RequestQueue::should_pick(const Ticket& ticket) const {
  return std::none_of(lines_.begin(), lines_.end(), [&](const Node& line) {
    if (!line.linked()) return false;
    const auto& last = static_cast<const Ticket&>(*line.previous);
    const bool same_subset = last.hint.subset == 0 || last.hint.subset == ticket.hint.subset;
    return last.hint.excluded.empty() && last.hint.pinned == nullptr && same_subset &&
           &last.state == &ticket.state;
  });
}

void RequestQueue::remove(Ticket& ticket) {
  ticket.unlink();
  --length_;
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

RequestQueue::JoinResult RequestQueue::join(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  // Counted before the last look: a slot released after that look finds a waiting request.
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  const auto line = static_cast<std::size_t>(ticket.hint.priority);
  ticket.joined = now;
  ticket.rank = now + ticket.state.spec().queue.timeout / 3 * static_cast<int>(line);
  ticket.hint.now = now;

  if (should_pick(ticket)) {
    while (const BackendPtr* backend = ticket.pick(picker, now)) {
      dispatch_locked((*backend)->load(), now);
      if (!(*backend)->try_acquire(now)) continue;
      ticket.granted = *backend;
      waiting_.fetch_sub(1, std::memory_order_seq_cst);
      return JoinResult::picked;
    }
  }
  const bool is_full = length_ >= ticket.state.spec().queue.size;
  if (is_full && displace(ticket.hint.priority)) {
    ++counts_.full_total;
    ++counts_.displaced_total;
  } else if (is_full) {
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
    ++counts_.full_total;
    return JoinResult::full;
  }
  ticket.insert_before(lines_[line]);
  ++length_;
  return JoinResult::queued;
}

void RequestQueue::recheck(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  if (ticket.granted || ticket.displaced) return;
  const bool is_bound =
      !ticket.hint.excluded.empty() || ticket.hint.pinned != nullptr || ticket.hint.subset != 0;
  if (!is_bound) {
    if (now - last_recheck_ < recheck_interval) return;
    last_recheck_ = now;
  }
  ticket.hint.now = now;
  while (!ticket.granted) {
    const BackendPtr* backend = ticket.pick(picker, now);
    if (backend == nullptr || dispatch_locked((*backend)->load(), now) == 0) return;
  }
}

QueueStats RequestQueue::counts() const {
  std::lock_guard lock(mutex_);
  QueueStats counts = counts_;
  counts.waiting = length_;
  return counts;
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
    ++queue_.counts_.abandoned_total;
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
  ++queue_.counts_.waited_total;
  queue_.counts_.waited_sum += now - ticket_->joined;
  return std::move(ticket_->granted);
}

}  // namespace evenkeel
