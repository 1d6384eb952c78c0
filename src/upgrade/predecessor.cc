#include "evenkeel/upgrade/predecessor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "evenkeel/upgrade/handover_packets.h"

namespace evenkeel {
namespace {

bool is_unix_socket(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

}  // namespace

Predecessor::Predecessor(const InheritedSockets::Variable& variable) {
  const auto number = variable(handover_variable);
  if (!number) return;
  const int fd = std::atoi(number->c_str());
  if (fd < 3 || !is_unix_socket(fd)) return;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  channel_ = OwnedFd(fd);
  pid_ = getppid();
}

Result<Done> Predecessor::receive_sockets(InheritedSockets& sockets) const {
  auto listeners = receive_listeners(channel());
  if (!listeners) return std::move(listeners.error());
  for (const HandedOverListener& listener : *listeners) {
    for (const int fd : listener.fds) sockets.add(fd, listener.name, listener.address);
  }
  return Done{};
}

std::string Predecessor::receive_state() const {
  return evenkeel::receive_state(channel()).value_or("");
}

void Predecessor::report_ready() const {
  // Fails if that process has ended meanwhile: then there is none to drain.
  [[maybe_unused]] const auto sent =
      send(channel(), handover_ready.data(), handover_ready.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// True while this process has the same parent: it gets another when that one ends.
bool Predecessor::runs() const { return pid_ > 1 && getppid() == pid_; }

void Predecessor::stop() const {
  if (runs()) kill(pid_, SIGTERM);
}

}  // namespace evenkeel
