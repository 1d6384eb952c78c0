// How a pool places the requests whose backend its scheduler chooses (picker `expected-time`).
#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "balance/pool_refusal.h"
#include "balance/pool_scheduler.h"
#include "evenkeel/balance/pool.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

// Predictions age while requests wait, also if nothing happens. A tick of the loop's timers (32 ms)
// more or less changes nothing.
constexpr Duration pass_interval = milliseconds(20);

// The pool may lose its last backend, and nothing tells those that wait.
constexpr Duration recheck_period = milliseconds(500);

}  // namespace

/// While one of them lives, this worker lets the scheduler look at what waits.
class Pool::Pacing {
 public:
  explicit Pacing(Pool& pool) : pool_(pool) {
    if (!pool_.keeps_pace_) pool_.pace_ = pool_.keep_pace();
    ++pool_.waiting_here_;
  }
  Pacing(const Pacing&) = delete;
  Pacing& operator=(const Pacing&) = delete;
  ~Pacing() { --pool_.waiting_here_; }

 private:
  Pool& pool_;
};

Task<void> Pool::keep_pace() {
  keeps_pace_ = true;
  do {
    co_await loop_.sleep_for(pass_interval);
    try {
      state_->scheduled()->scheduler().pass(loop_.now());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    }  // the next one finds some, perhaps
  } while (waiting_here_ > 0);
  keeps_pace_ = false;
}

/// One request in so many is recorded, with the choice of the shadow picker, if there is one. That
/// one chooses among all backends of the pool, as if it stood in the scheduler's place.
void Pool::sample(Arrival& arrival, const Hint& hint) {
  const std::uint32_t interval = state_->spec().picker.explain_one_in;
  const bool is_new = hint.queued_since == Instant{};
  if (interval > 0 && is_new && ++unsampled_ >= interval) {
    unsampled_ = 0;
    arrival.sampled = true;
  }
  if (!arrival.sampled && !arrival.wants_record) return;
  if (shadow_picker_ == nullptr || hint.subset != 0 || hint.pinned != nullptr) return;
  Hint asked = hint;
  asked.now = loop_.now();
  const BackendPtr* const choice = shadow_picker_->pick(asked);
  if (choice == nullptr) return;
  const auto index = static_cast<std::size_t>(choice - state_->backends().data());
  arrival.shadow = state_->scheduled()->slots()[index];
}

/// Neither suspends nor waits if the request can start now.
Task<Result<Lease>> Pool::place_by_cost(const Hint& hint, Instant deadline) {
  const auto& scheduled = state_->scheduled();
  Arrival arrival = *hint.arrival;
  std::array<std::uint32_t, ExcludedBackends::capacity> excluded;
  std::size_t count = 0;
  for (std::size_t i = 0; i < scheduled->slots().size() && count < hint.excluded.size(); ++i) {
    if (!hint.excluded.contains(state_->backends()[i].get())) continue;
    excluded[count++] = scheduled->slots()[i];
  }
  arrival.excluded = std::span(excluded).first(count);
  if (hint.pinned != nullptr) {
    const BackendPtr* const pinned = state_->find(*hint.pinned, 0);
    if (pinned == nullptr) return no_backend_error();
    arrival.pinned =
        scheduled->slots()[static_cast<std::size_t>(pinned - state_->backends().data())];
  }
  if (hint.preferred != nullptr) {
    const BackendPtr* const preferred = state_->find(*hint.preferred, 0);
    arrival.preferred =
        scheduled->slots()[static_cast<std::size_t>(preferred - state_->backends().data())];
  }
  const std::uint32_t subset = hint.pinned != nullptr ? 0 : hint.subset;
  sample(arrival, hint);
  auto request =
      std::make_shared<PlacedRequest>(scheduled, scheduled->section(subset), loop_, hint.priority);
  using Arrived = PoolScheduler::Arrived;
  // One that waited in an earlier version of the pool keeps its place in the queue.
  arrival.waiting_since = hint.queued_since;
  const std::uint32_t max_waiting = hint.queued_since != Instant{}
                                        ? std::numeric_limits<std::uint32_t>::max()
                                        : state_->spec().queue.size;
  const Arrived arrived =
      scheduled->scheduler().arrive(*request, arrival, hint, max_waiting, loop_.now());
  switch (arrived) {
    case Arrived::placed: count_earlier_wait(hint); return lease_of(std::move(request), {});
    case Arrived::refused: return refused_error(request->retry_after());
    case Arrived::full: break;
    case Arrived::waits: break;
  }
  if (arrived == Arrived::waits) {
    try {
      return wait_for_placement(request, hint, deadline);
    } catch (const std::bad_alloc&) {
      const PlacementWait gives_up(request);  // it is not to stay where others see it
      throw;
    }
  }
  return queue_error(Fault::queue_full, "no backend can start the request and the queue is full",
                     hint);
}

Task<Result<Lease>> Pool::wait_for_placement(std::shared_ptr<PlacedRequest> request, Hint hint,
                                             Instant deadline) {
  const Instant began = loop_.now();
  const Instant until = std::min(deadline, began + state_->spec().queue.timeout);
  PlacementWait waiting(request, hint.moved);
  const Pacing pacing(*this);
  while (waiting.waits() && loop_.now() < until) {
    co_await waiting.wait(std::min(until, loop_.now() + recheck_period));
    if (!waiting.waits()) break;
    // A drained backend keeps its sessions, but the scheduler sends nothing there.
    if (hint.pinned != nullptr && !hint.pinned->in_rotation()) co_return no_backend_error();
    if (auto error = end_of_wait(hint, began)) co_return std::move(*error);
  }
  using End = PlacementWait::End;
  switch (waiting.end(loop_.now())) {
    case End::placed: co_return lease_of(std::move(request), waiting.waited());
    case End::refused: co_return refused_error(request->retry_after());
    case End::displaced: co_return queue_error(Fault::queue_full, displaced_text, hint);
    case End::expired: break;
  }
  co_return queue_error(Fault::queue_timeout, "no backend could start it in time", hint);
}

Lease Pool::lease_of(std::shared_ptr<PlacedRequest> request, Duration waited) const {
  const BackendPtr& backend = *state_->find(request->backend().load(), 0);
  return Lease::adopt(backend, waited, std::move(request));
}

Error Pool::refused_error(Duration retry_after) const {
  return refusal(Fault::queue_full, state_->spec().name,
                 "its first token would come too late (picker.shed)", retry_after);
}

}  // namespace evenkeel
