// What systemd is told of a service of Type=notify (sd_notify(3)), without its library.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Sends states as datagrams to where $NOTIFY_SOCKET says; to nobody where that is not set, so that
/// the daemon need not ask who started it. A datagram that cannot be sent now is lost: none of them
/// is worth waiting for.
///
/// Thread: one.
class ServiceNotifier {
 public:
  using Variable = std::function<std::optional<std::string>(const std::string& name)>;

  /// `variable` reads the environment: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
  explicit ServiceNotifier(const Variable& variable);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;
  ~ServiceNotifier();

  /// Somebody is told.
  bool active() const { return fd_ >= 0; }

  /// The start, or a reload, is over. `status` is one line for `systemctl status`.
  void ready(std::string_view status);
  /// A reload begins; `ready` ends it, whether the new file was taken or not.
  void reloading();
  void status(std::string_view status);
  /// The end begins.
  void stopping(std::string_view status);
  /// Asks for so much time from now on before the service is taken for hung in its start or end.
  void extend_timeout(Duration time);

  /// Keeps the watchdog from biting while every loop turns: knocks at all of them, and tells
  /// systemd when all have answered. Ends at once where no watchdog was asked for. `loops` outlive
  /// the task. Thread: of `own`.
  Task<void> feed_watchdog(Loop& own, std::vector<Loop*> loops);

  /// How long the watchdog waits; nothing: there is none, or it is another process's.
  std::optional<Duration> watchdog() const { return watchdog_; }

 private:
  void send(std::string_view state);

  int fd_ = -1;
  std::string address_;  // a sockaddr_un, as long as its name
  std::optional<Duration> watchdog_;
};

}  // namespace evenkeel
