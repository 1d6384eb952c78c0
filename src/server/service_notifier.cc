#include "server/service_notifier.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/loop_liveness.h"

namespace evenkeel {
namespace {

std::int64_t microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

/// The clock that systemd compares with.
std::int64_t monotonic_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return microseconds(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

/// Joins lines: in a datagram, a second line would be another assignment.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

ServiceNotifier::ServiceNotifier(const Variable& variable) {
  const auto socket_name = variable("NOTIFY_SOCKET");
  if (!socket_name || socket_name->size() < 2) return;
  const bool abstract = socket_name->front() == '@';
  if (!abstract && socket_name->front() != '/') return;  // vsock, of a virtual machine
  sockaddr_un address{};
  if (socket_name->size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_name->data(), socket_name->size());
  if (abstract) address.sun_path[0] = '\0';
  const auto* const begin = reinterpret_cast<const char*>(&address);
  address_.assign(begin, offsetof(sockaddr_un, sun_path) + socket_name->size());
  socket_ = OwnedFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

  const auto time = parse_number<std::uint64_t>(variable("WATCHDOG_USEC").value_or(""));
  const auto watchdog_pid = variable("WATCHDOG_PID");
  const bool ours = !watchdog_pid || parse_number<pid_t>(*watchdog_pid) == getpid();
  if (time && *time > 0 && ours) watchdog_ = std::chrono::microseconds(*time);
}

void ServiceNotifier::ready(std::string_view status) {
  send("READY=1\nSTATUS=" + one_line(status));
}

void ServiceNotifier::reloading() {
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading", monotonic_microseconds()));
}

void ServiceNotifier::status(std::string_view status) { send("STATUS=" + one_line(status)); }

void ServiceNotifier::stopping(std::string_view status) {
  send("STOPPING=1\nSTATUS=" + one_line(status));
}

void ServiceNotifier::hand_over(pid_t successor, std::string_view status) {
  // The watchdog's time runs on, and what the new process has sent so far was not heard.
  send(fmt::format("MAINPID={}\n{}READY=1\nSTATUS={}", successor, watchdog_ ? "WATCHDOG=1\n" : "",
                   one_line(status)));
  socket_ = OwnedFd();
}

void ServiceNotifier::extend_timeout(Duration time) {
  send(fmt::format("EXTEND_TIMEOUT_USEC={}", microseconds(time)));
}

Task<void> ServiceNotifier::feed_watchdog(Loop& own, std::vector<Loop*> loops) {
  if (!active() || !watchdog_) co_return;
  while (true) {
    // A blocked loop withholds the ping until it runs again.
    co_await all_responsive(own, loops, never);
    send("WATCHDOG=1");
    co_await own.sleep_for(*watchdog_ / 2);
  }
}

void ServiceNotifier::send(std::string_view state) {
  if (!active()) return;
  // Not connected: the receiver may restart (systemctl daemon-reexec).
  const auto* const to = reinterpret_cast<const sockaddr*>(address_.data());
  [[maybe_unused]] const auto sent = sendto(socket_.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                            to, static_cast<socklen_t>(address_.size()));
}

}  // namespace evenkeel
