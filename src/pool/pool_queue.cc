// How a worker's requests wait in the queue of their pool.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/admission.h"
#include "pool/eligibility.h"
#include "pool/pool_refusal.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using Stage = AdmissionTicket::Stage;

// Predictions age while requests wait, also if nothing happens. A tick of the loop's timers (32 ms)
// more or less is no matter: see docs/simulator.md.
constexpr Duration pass_interval = milliseconds(20);

// Slots may become free without a release, as when a back-off ends, and the pool may lose its last
// backend: nothing tells those that wait.
constexpr Duration recheck_period = milliseconds(250);

// Standby backends enter for backends that are down and for load, not for one request that all
// others failed.
constexpr Duration max_standby_wait = std::chrono::seconds(1);

/// The client should come back when the queue of now will have been served, or when a backend may
/// serve again.
Error queue_error(Fault fault, const char* why, const AdmissionTicket& ticket, Instant now) {
  const PoolState& pool = *ticket.pool;
  const Duration retry_after =
      pool.available(now) > 0 ? pool.wait_for(ticket.hint) : recovery_time(pool.config().health);
  return refusal(fault, pool.config().name, why, retry_after);
}

/// Records that the request has the first slot that became free for it.
void explain_wait(const AdmissionTicket& ticket, Instant now) {
  Hint hint = ticket.hint;
  hint.now = now;
  const bool is_pinned = hint.pinned != nullptr;
  PickRecord record =
      describe_placement(*ticket.pool, hint, *ticket.backend, is_pinned ? "session" : "waited");
  record.waited = ticket.waited();
  ticket.pool->picks().add(std::move(record));
}

/// `stage`: in which its wait has ended.
Result<Lease> outcome_of(const std::shared_ptr<AdmissionTicket>& ticket, Stage stage, Instant now) {
  const bool is_scheduled = ticket->is_scheduled();
  const auto error = [&](Fault fault, const char* why) {
    return queue_error(fault, why, *ticket, now);
  };
  switch (stage) {
    case Stage::started: break;
    case Stage::refused:
      return refusal(Fault::queue_full, ticket->pool->config().name,
                     "its first token would come too late (picker.shed)", ticket->retry_after);
    case Stage::full:
      return error(Fault::queue_full, is_scheduled
                                          ? "no backend can start the request and the queue is full"
                                          : "all slots are taken and the queue is full");
    case Stage::displaced: return error(Fault::queue_full, displaced_text);
    case Stage::arrives:
    case Stage::waits:
    case Stage::left:
      if (!has_in_rotation(ticket->pool->backends(), {}))
        return error(Fault::queue_timeout, "no server has started in time (scaling)");
      return error(Fault::queue_timeout, is_scheduled ? "no backend could start it in time"
                                                      : "no slot became free in time");
  }
  std::shared_ptr<PlacedRequest> placed;
  if (is_scheduled) placed = {ticket, &*ticket->placed};
  if (!is_scheduled && !ticket->hint.explained_id.empty()) [[unlikely]]
    explain_wait(*ticket, now);
  return Lease::adopt(std::move(ticket->backend), ticket->waited(), std::move(placed));
}

}  // namespace

void Pool::hand_queue_to(const Pool* successor) {
  successor_.reset();
  if (successor == nullptr) return;
  successor_ = successor->state_;
  state_->admission().move(*state_, loop_, successor->state_, Clock::now());
}

/// Counts a request that waits for the scheduler: while there is one, this worker lets the
/// scheduler look at what waits.
class Pool::PacedWait {
 public:
  PacedWait(Pool& pool, const AdmissionTicket& ticket)
      : pool_(ticket.is_scheduled() ? &pool : nullptr) {
    if (pool_ == nullptr) return;
    if (!pool_->keeps_pace_) pool_->pace_ = pool_->keep_pace();
    ++pool_->waiting_here_;
  }
  PacedWait(const PacedWait&) = delete;
  PacedWait& operator=(const PacedWait&) = delete;
  ~PacedWait() {
    if (pool_ != nullptr) --pool_->waiting_here_;
  }

 private:
  Pool* pool_;
};

Task<void> Pool::keep_pace() {
  keeps_pace_ = true;
  do {
    co_await loop_.sleep_for(pass_interval);
    state_->scheduled()->scheduler().pass(loop_.now());
    const auto successor = successor_.lock();
    if (successor != nullptr && successor->scheduled() != nullptr)
      successor->scheduled()->scheduler().pass(loop_.now());
  } while (waiting_here_ > 0);
  keeps_pace_ = false;
}

/// Every Nth request is recorded, with the choice of the shadow picker, if there is one. That
/// one chooses among all backends of the pool, as if it stood in the scheduler's place.
void Pool::sample(AdmissionTicket& ticket) {
  const std::uint32_t interval = state_->config().picker.explained_interval();
  if (interval > 0 && ++unsampled_ >= interval) {
    unsampled_ = 0;
    ticket.is_sample = true;
  }
  const Hint& hint = ticket.hint;
  if (!ticket.is_sample && !hint.cost->wants_record) return;
  if (shadow_picker_ == nullptr || hint.subset != 0 || hint.pinned != nullptr) return;
  Hint asked = hint;
  asked.now = loop_.now();
  const BackendPtr* const choice = shadow_picker_->pick(asked);
  if (choice == nullptr) return;
  const auto index = static_cast<std::size_t>(choice - state_->backends().data());
  ticket.shadow = state_->scheduled()->slots()[index];
}

/// Neither suspends nor waits if the request can start now.
Task<Result<Lease>> Pool::queue_up(const Hint& hint, Instant deadline) {
  if (hint.pinned != nullptr && state_->backend_set().find(*hint.pinned) == nullptr)
    return no_backend_error();
  auto ticket = std::make_shared<AdmissionTicket>(state_, loop_, hint);
  if (ticket->is_scheduled()) sample(*ticket);
  // The loop's time is the same for all requests of one iteration.
  const Instant now = ticket->is_scheduled() ? loop_.now() : Clock::now();
  const Stage stage = state_->admission().join(*ticket, picker_for(hint), now);
  if (stage == Stage::waits) return wait(std::move(ticket), deadline);
  return outcome_of(ticket, stage, now);
}

Task<Result<Lease>> Pool::wait(std::shared_ptr<AdmissionTicket> ticket, Instant deadline) {
  Admission& admission = state_->admission();
  const Instant began = loop_.now();
  AdmissionWait waiting(ticket);
  const PacedWait paced(*this, *ticket);
  while (waiting.waits()) {
    const Instant until =
        std::min(deadline, ticket->joined + ticket->pool->config().limits.queue.timeout);
    if (loop_.now() >= until) break;
    const Wake wake = co_await waiting.wait(std::min(until, loop_.now() + recheck_period));
    if (wake == Wake::expired) {
      if (const auto successor = successor_.lock()) admission.move(*ticket, successor, loop_.now());
      admission.recheck(*ticket, loop_.now());
    }
    if (!waiting.waits()) break;
    if (auto error = end_of_wait(*ticket, began)) co_return std::move(*error);
  }
  co_return outcome_of(ticket, waiting.end(loop_.now()), loop_.now());
}

/// Why it makes no sense to wait any longer; nothing: it does.
std::optional<Error> Pool::end_of_wait(const AdmissionTicket& ticket, Instant began) const {
  const PoolState& pool = *ticket.pool;
  const Hint& hint = ticket.hint;
  if (!pin_holds(hint, loop_.now())) return no_backend_error(pool);
  if (hint.pinned != nullptr) {
    // A drained backend keeps its sessions, but the scheduler sends nothing there.
    const bool is_lost = ticket.is_scheduled() && !hint.pinned->state.in_rotation();
    return is_lost ? std::optional(no_backend_error(pool)) : std::nullopt;
  }
  if (!may_become_available(pool, hint)) return no_backend_error(pool);
  const bool for_standby =
      !hint.excluded.empty() && !has_in_rotation(pool.backends(), hint.excluded);
  if (for_standby && loop_.now() - began >= max_standby_wait) return no_backend_error(pool);
  return std::nullopt;
}

}  // namespace evenkeel
