#include "server/drain.h"

#include <fmt/core.h>

#include <algorithm>

#include "evenkeel/base/log.h"
#include "evenkeel/base/loop_liveness.h"

namespace evenkeel {
namespace {

/// How long a drain waits for busy workers to close their listeners.
constexpr Duration max_loop_turn = std::chrono::seconds(1);
/// The time by which a drain extends systemd's stop timeout.
constexpr Duration stop_timeout_extension = std::chrono::seconds(10);

}  // namespace

Task<void> Drain::delay(Duration time) {
  const Instant end = loop_.now() + time;
  while (loop_.now() < end) {
    notifier_.extend_timeout(stop_timeout_extension);
    co_await loop_.sleep_until(std::min(end, loop_.now() + std::chrono::seconds(1)));
  }
  notifier_.extend_timeout(stop_timeout_extension);
}

Task<bool> Drain::finish_connections(Retire how, Duration limit) {
  workers_.begin_drain(how);
  // Only after this can no worker accept another connection, so the count can reach 0.
  co_await all_responsive(loop_, workers_.loops(), loop_.now() + max_loop_turn);

  deadline_ = std::min<Instant>(deadline_, loop_.now() + limit);
  Instant last_report = loop_.now();
  while (workers_.connections() > 0 && loop_.now() < deadline_) {
    co_await loop_.sleep_for(std::chrono::milliseconds(20));
    if (loop_.now() - last_report < std::chrono::seconds(1)) continue;
    last_report = loop_.now();
    notifier_.status(fmt::format("draining {} connections", workers_.connections()));
    notifier_.extend_timeout(stop_timeout_extension);
  }
  if (workers_.connections() == 0) co_return true;
  log::process.warning(
      fmt::format("drain deadline passed: closing {} connections", workers_.connections()));
  co_return false;
}

void Drain::shorten(Duration limit) {
  deadline_ = std::min<Instant>(deadline_, loop_.now() + limit);
  log::process.info(fmt::format("draining {} connections for at most {} s", workers_.connections(),
                                std::chrono::ceil<std::chrono::seconds>(limit).count()));
}

}  // namespace evenkeel
