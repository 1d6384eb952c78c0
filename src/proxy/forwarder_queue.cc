// Requests that wait for a slot, and go on in a later version of their pool if its backends change.
#include <array>
#include <memory>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/proxy/forwarder.h"
#include "proxy/attempt_progress.h"

namespace evenkeel {
namespace {

/// How often a request asks whether the backends of the later version serve by now.
constexpr Duration recheck_period = std::chrono::milliseconds(250);

/// While it lives, the request counts as queued. Its destructor records the time in the queue.
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

/// A request in the queue that no backend has seen yet. Thread: the loop's.
class Forwarder::QueuedRequest : public Node {
 public:
  /// Null: it stays.
  void hand_to(Successor successor) {
    successor_ = std::move(successor);
    if (wait_ != nullptr) wait_->expire_soon();
  }
  const Successor& successor() const { return successor_; }

  /// Waits for the slot, or until there is a successor to look at.
  Task<void> wait(Task<Result<Lease>>& placed, Loop& loop) {
    const bool has_successor = successor_.forwarder != nullptr;
    UntilDoneOrDeadline until(placed, loop, has_successor ? loop.now() + recheck_period : never);
    wait_ = &until;
    co_await until;
    wait_ = nullptr;
  }

 private:
  Successor successor_;
  UntilDoneOrDeadline<Result<Lease>>* wait_ = nullptr;
};

void Forwarder::hand_queue_to(Forwarder* successor, const std::shared_ptr<const void>& plan) {
  for (Node* each = queue_.next; each != &queue_; each = each->next) {
    static_cast<QueuedRequest*>(each)->hand_to(
        {.plan = successor == nullptr ? nullptr : plan, .forwarder = successor});
  }
}

Task<Result<Lease>> Forwarder::wait_in_queue(Task<Result<Lease>> placed, Request& request,
                                             Progress& progress) {
  const QueuedTime waiting(loop_, metrics_.waiting, request.info.timings);
  const Instant earlier = progress.hint.queued_since;
  progress.queued_since = earlier != Instant{} ? earlier : loop_.now();
  QueuedRequest queued;
  if (!progress.held && progress.hint.excluded.empty()) queued.insert_before(queue_);
  const RequestIdentity& identity = request.info.identity;
  while (!placed.ready()) {
    const Forwarder* const successor = queued.successor().forwarder;
    if (successor != nullptr && can_go_on_in(*successor, identity)) {
      progress.successor = queued.successor();
      progress.moved = true;
      co_return Error{.fault = Fault::no_backend, .detail = "the pool has other backends"};
    }
    co_await queued.wait(placed, loop_);
  }
  auto lease = co_await placed;
  co_return lease;
}

/// What a request has waited in an earlier version counts towards this one's timeout.
Instant Forwarder::deadline_in_queue(const Progress& progress) const {
  if (progress.hint.queued_since == Instant{}) return never;
  return progress.hint.queued_since + pool_.state().spec().queue.timeout;
}

/// The number of a subset in another version of the pool. Nothing: that has none of these labels.
std::optional<std::uint32_t> Forwarder::subset_in(const PoolState& other,
                                                  std::uint32_t own_number) const {
  if (own_number == 0) return 0;
  const std::uint32_t number = other.subset_number(pool_.state().subsets()[own_number - 1].spec());
  return number == 0 ? std::nullopt : std::optional(number);
}

/// One of its backends may take the request.
bool Forwarder::can_go_on_in(const Forwarder& successor, const RequestIdentity& identity) const {
  const auto subset = subset_in(successor.state(), identity.subset);
  if (!subset || !subset_in(successor.state(), identity.session_subset)) return false;
  return successor.state().may_become_available({.subset = *subset});
}

/// REQUIRES: can_go_on_in.
Task<Result<Response>> Forwarder::go_on_in_successor(Request& request,
                                                     const Progress& progress) const {
  Forwarder& successor = *progress.successor.forwarder;
  RequestIdentity& identity = request.info.identity;
  keep_too(request.info.plan, progress.successor.plan);
  identity.subset = subset_in(successor.state(), identity.subset).value_or(0);
  identity.session_subset = subset_in(successor.state(), identity.session_subset).value_or(0);
  return successor.forward(request, progress.queued_since);
}

}  // namespace evenkeel
