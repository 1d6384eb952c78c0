// Reports the service's state to systemd (Type=notify, sd_notify(3)), without its library.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Sends states as datagrams to $NOTIFY_SOCKET; does nothing where that is not set, so that the
/// daemon need not know how it was started. A datagram that cannot be sent at once is lost: none is
/// worth a wait.
///
/// Thread: one.
class ServiceNotifier {
 public:
  using Variable = std::function<std::optional<std::string>(const std::string& name)>;

  /// `variable` reads the environment: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
  explicit ServiceNotifier(const Variable& variable);

  /// True if there is a socket to send to.
  bool active() const { return socket_.get() >= 0; }

  /// The start, or a reload, is complete. `status` is shown by `systemctl status`.
  void ready(std::string_view status);
  /// A reload begins; `ready` ends it, whether it was accepted or rejected.
  void reloading();
  void status(std::string_view status);
  /// The shutdown begins.
  void stopping(std::string_view status);
  /// The process `successor` is the service's main process from now on, and ready. Sends nothing
  /// more: systemd hears only the main process.
  void hand_over(pid_t successor, std::string_view status);
  /// Extends the time before systemd treats a start or stop as hung, counted from now.
  void extend_timeout(Duration time);

  /// Pings systemd's watchdog for as long as no loop is blocked: each ping is sent after all loops
  /// have responded. Done at once where there is no watchdog. `loops` outlive the task. Thread: of
  /// `own`.
  Task<void> feed_watchdog(Loop& own, std::vector<Loop*> loops);

  /// How long the watchdog waits for a ping; nothing: there is none, or it is for another process.
  std::optional<Duration> watchdog() const { return watchdog_; }

 private:
  void send(std::string_view state);

  OwnedFd socket_;
  std::string address_;  // a sockaddr_un, as long as its name
  std::optional<Duration> watchdog_;
};

}  // namespace evenkeel
