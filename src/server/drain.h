// The end of the connections of clients, before the process ends.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "server/service_notifier.h"
#include "server/worker_group.h"

namespace evenkeel {

/// Closes the listeners and waits for requests in flight.
///
/// Thread: the control thread.
class Drain {
 public:
  /// All outlive it.
  Drain(Loop& loop, WorkerGroup& workers, ServiceNotifier& notifier)
      : loop_(loop), workers_(workers), notifier_(notifier) {}

  /// Waits for `shutdown.delay`, so that load balancers in front can see that /readyz fails.
  Task<void> delay(Duration time);
  /// Waits until every connection has ended, or until the deadline, which is `limit` from now or
  /// what `shorten` has set. Returns true if every connection has ended.
  Task<bool> finish_connections(Retire how, Duration limit);
  /// Moves the deadline to `limit` from now, if it is later or not set.
  void shorten(Duration limit);

 private:
  Loop& loop_;
  WorkerGroup& workers_;
  ServiceNotifier& notifier_;
  Instant deadline_ = never;
};

}  // namespace evenkeel
