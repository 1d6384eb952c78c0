#include "balance/waiting_line.h"

#include <utility>

namespace evenkeel {
namespace {

// Those in line look from time to time for places that nobody gave back. One's look serves all.
constexpr Duration between_looks = std::chrono::milliseconds(200);

}  // namespace

/// What the line knows of one who stands in it. Guarded by the line's mutex, but for `signal`.
/// Shared with the message that tells the waiter's loop of a grant, which may come after the waiter
/// has gone.
struct WaitingLine::Ticket : Node, std::enable_shared_from_this<Ticket> {
  Ticket(const PoolState& pool, Loop& home, const Hint& wish, Signal& bell)
      : state(pool), loop(home), hint(wish), signal(&bell) {}

  /// The waiter's own backend with these counters, if it may be sent there now.
  const BackendPtr* usable(const Load& load, Instant now) const {
    const BackendPtr* backend = state.find(load);
    if (backend == nullptr || !load.open() || hint.tried.contains(backend->get())) return nullptr;
    if (state.left_alone(load, now) && state.has_standing(hint.tried, now)) return nullptr;
    return backend;
  }

  const PoolState& state;
  Loop& loop;
  Hint hint;
  BackendPtr granted;
  Instant joined{};
  Signal* signal;  // the loop's thread only; null when the waiter has gone
};

void WaitingLine::offer(const Load& load, Instant now) {
  std::lock_guard lock(mutex_);
  offer_locked(load, now);
}

std::size_t WaitingLine::offer_locked(const Load& load, Instant now) {
  std::size_t granted = 0;
  for (Node* at = line_.next; at != &line_;) {
    auto& ticket = static_cast<Ticket&>(*at);
    at = at->next;
    const BackendPtr* backend = ticket.usable(load, now);
    if (backend == nullptr) continue;
    if (!(*backend)->try_enter(now)) break;  // full, for those behind as well
    grant(ticket, *backend);
    ++granted;
  }
  return granted;
}

// Under the lock to its end: a waiter that is dropped takes the lock too, so its loop still stands.
void WaitingLine::grant(Ticket& ticket, const BackendPtr& backend) {
  remove(ticket);
  ticket.granted = backend;
  ticket.loop.post([ticket = ticket.shared_from_this()] {
    if (ticket->signal != nullptr) ticket->signal->raise();
  });
}

// Behind somebody who would take any place that the newcomer could, there is nothing to look for.
bool WaitingLine::may_look(const Ticket& newcomer) const {
  if (!line_.linked()) return true;
  const auto& last = static_cast<const Ticket&>(*line_.previous);
  return !last.hint.tried.empty() || &last.state != &newcomer.state;
}

void WaitingLine::remove(Ticket& ticket) {
  ticket.unlink();
  --length_;
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

WaitingLine::Joined WaitingLine::join(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  // Counted before the last look: whoever gives a place back after that look sees somebody waiting.
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  ticket.joined = now;
  ticket.hint.now = now;

  if (may_look(ticket)) {
    while (const BackendPtr* backend = picker.pick(ticket.hint)) {
      offer_locked((*backend)->load(), now);
      if (!(*backend)->try_enter(now)) continue;
      ticket.granted = *backend;
      waiting_.fetch_sub(1, std::memory_order_seq_cst);
      return Joined::placed;
    }
  }
  if (length_ >= ticket.state.spec().queue.size) {
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
    ++counts_.full_total;
    return Joined::refused;
  }
  ticket.insert_before(line_);
  ++length_;
  return Joined::standing;
}

void WaitingLine::look_again(Ticket& ticket, Picker& picker, Instant now) {
  std::lock_guard lock(mutex_);
  if (ticket.granted) return;
  if (ticket.hint.tried.empty() && now - last_look_ < between_looks) return;
  last_look_ = now;
  ticket.hint.now = now;
  while (!ticket.granted) {
    const BackendPtr* backend = picker.pick(ticket.hint);
    if (backend == nullptr || offer_locked((*backend)->load(), now) == 0) return;
  }
}

QueueCounts WaitingLine::counts() const {
  std::lock_guard lock(mutex_);
  QueueCounts counts = counts_;
  counts.waiting = length_;
  return counts;
}

WaitingLine::Stand::Stand(const PoolState& state, Loop& loop, const Hint& hint)
    : line_(state.line()),
      signal_(loop),
      ticket_(std::make_shared<Ticket>(state, loop, hint, signal_)) {}

WaitingLine::Stand::~Stand() {
  ticket_->signal = nullptr;
  if (left_) return;
  BackendPtr place;
  {
    std::lock_guard lock(line_.mutex_);
    ++line_.counts_.abandoned_total;
    place = std::move(ticket_->granted);
    if (!place) line_.remove(*ticket_);
  }
  if (place) place->leave();
}

bool WaitingLine::Stand::join(Picker& picker, Instant now) {
  left_ = line_.join(*ticket_, picker, now) != Joined::standing;
  return !left_ || ticket_->granted;
}

bool WaitingLine::Stand::granted() const {
  std::lock_guard lock(line_.mutex_);
  return ticket_->granted != nullptr;
}

void WaitingLine::Stand::look_again(Picker& picker, Instant now) {
  line_.look_again(*ticket_, picker, now);
}

BackendPtr WaitingLine::Stand::take(Instant now) {
  if (left_) return std::move(ticket_->granted);
  left_ = true;
  std::lock_guard lock(line_.mutex_);
  if (!ticket_->granted) {
    line_.remove(*ticket_);
    ++line_.counts_.timeout_total;
    return nullptr;
  }
  ++line_.counts_.waited_total;
  line_.counts_.waited_sum += now - ticket_->joined;
  return std::move(ticket_->granted);
}

}  // namespace evenkeel
