// How a request gets its slot, perhaps of a backend that only a later version of its pool has.
#include <array>
#include <memory>
#include <utility>

#include "evenkeel/proxy/forwarder.h"
#include "proxy/attempt_progress.h"

namespace evenkeel {
namespace {

/// One pick in so many is timed: reading the clock twice takes longer than a pick.
constexpr std::uint32_t pick_timing_interval = 16;

/// Counts a request as queued while it lives. Its destructor records the time in the queue.
class QueuedTime {
 public:
  QueuedTime(Loop& loop, Gauge& gauge, RequestTimings& timings)
      : loop_(loop), gauge_(gauge), timings_(timings), began_(loop.now()) {
    gauge_.add();
  }
  QueuedTime(const QueuedTime&) = delete;
  ~QueuedTime() {
    gauge_.remove();
    timings_.waited += loop_.now() - began_;
  }

 private:
  Loop& loop_;
  Gauge& gauge_;
  RequestTimings& timings_;
  Instant began_;
};

/// The request is on its way through the filters of the plan that it has kept so far.
void keep_too(std::shared_ptr<const void>& kept, const std::shared_ptr<const void>& plan) {
  if (kept == nullptr) {
    kept = plan;
  } else {
    kept = std::make_shared<std::array<std::shared_ptr<const void>, 2>>(
        std::array<std::shared_ptr<const void>, 2>{kept, plan});
  }
}

}  // namespace

Task<Result<Lease>> Forwarder::acquire(Request& request, Progress& progress) {
  const Instant deadline = progress.held ? retry_deadline(progress) : never;
  const bool timed = ++picks_ % pick_timing_interval == 0;
  const Instant began = timed ? loop_.read_clock() : Instant{};
  auto placed = pool_.acquire(progress.hint, deadline);
  if (placed.ready()) {
    if (timed) worker_metrics_.observe_pick(loop_.read_clock() - began);
    return placed;
  }
  progress.count_retry_time(request.info.timings);
  return wait_in_queue(std::move(placed), request);
}

Task<Result<Lease>> Forwarder::wait_in_queue(Task<Result<Lease>> placed, Request& request) {
  const QueuedTime waiting(loop_, metrics_.waiting, request.info.timings);
  auto lease = co_await placed;
  co_return lease;
}

void Forwarder::hand_queue_to(Forwarder* successor, const std::shared_ptr<const void>& plan) {
  successor_ = successor;
  successor_plan_ = plan;
  pool_.hand_queue_to(successor == nullptr ? nullptr : &successor->pool_);
}

/// Goes on in the version of the pool that has the backend. If that has been replaced in the same
/// moment, the newest version places the request anew.
Task<Result<Response>> Forwarder::forward_by_successor(Request& request, Lease lease) const {
  const auto plan = successor_plan_.lock();
  if (successor_ == nullptr || plan == nullptr) {
    return Result<Response>(
        Error{.fault = Fault::no_backend, .detail = "the backend has left the pool"});
  }
  keep_too(request.info.plan, plan);
  RequestIdentity& identity = request.info.identity;
  const PoolState& next = successor_->state();
  identity.subset = state().subset_in(next, identity.subset).value_or(0);
  identity.session_subset = state().subset_in(next, identity.session_subset).value_or(0);
  if (!successor_->targets_.contains(lease.backend().get())) lease.release();
  return successor_->forward(request, std::move(lease));
}

}  // namespace evenkeel
