#include "evenkeel/upgrade/inherited_sockets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

constexpr int first_inherited_fd = 3;
constexpr long max_inherited_fds = 1024;

}  // namespace

InheritedSockets::InheritedSockets(const Variable& variable) {
  if (parse_number<pid_t>(variable("LISTEN_PID").value_or("")) != getpid()) return;
  const long given = parse_number<long>(variable("LISTEN_FDS").value_or("")).value_or(0);
  const long count = std::min(given, max_inherited_fds);
  std::string names = variable("LISTEN_FDNAMES").value_or("");
  for (int fd = first_inherited_fd; fd < first_inherited_fd + count; ++fd) {
    const std::size_t colon = names.find(':');
    std::string name = names.substr(0, colon);
    names = colon == std::string::npos ? "" : names.substr(colon + 1);
    if (!Listener::is_listening(fd)) continue;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets_.push_back({.handle = {fd},
                        .name = std::move(name),
                        .endpoint = Listener::local_endpoint(fd),
                        .configured = {}});
  }
}

void InheritedSockets::add(int fd, std::string name, const Address& configured) {
  sockets_.push_back({.handle = {fd},
                      .name = std::move(name),
                      .endpoint = Listener::local_endpoint(fd),
                      .configured = configured});
}

bool InheritedSockets::Inherited::fits(std::string_view listener, const Endpoint& wanted,
                                       const Address& address) const {
  if (endpoint == wanted) return true;
  if (!configured) return name == listener && !claimed;
  return *configured == address && (address.port != 0 || name == listener);
}

InheritedSockets::~InheritedSockets() { close_all(); }

void InheritedSockets::close_all() {
  for (const Inherited& socket : sockets_) close(socket.handle.fd);
  sockets_.clear();
}

std::vector<InheritedSockets::Handle> InheritedSockets::find(std::string_view name,
                                                             const Endpoint& endpoint,
                                                             const Address& configured) const {
  std::vector<Handle> found;
  for (const Inherited& socket : sockets_) {
    if (socket.fits(name, endpoint, configured)) found.push_back(socket.handle);
  }
  return found;
}

bool InheritedSockets::shares_port(std::uint16_t port) const {
  return std::any_of(sockets_.begin(), sockets_.end(), [port](const Inherited& socket) {
    return socket.configured && socket.endpoint.port() == port;
  });
}

int InheritedSockets::duplicate(Handle socket) { return fcntl(socket.fd, F_DUPFD_CLOEXEC, 0); }

void InheritedSockets::claim(Handle socket) {
  for (Inherited& each : sockets_) {
    if (each.handle == socket) each.claimed = true;
  }
}

int InheritedSockets::take(std::string_view name, const Endpoint& endpoint,
                           const Address& configured) {
  const std::vector<Handle> found = find(name, endpoint, configured);
  if (found.empty()) return -1;
  for (Inherited& each : sockets_) {
    if (each.handle != found.front()) continue;
    each.claimed = true;
    each.taken_as = name;
  }
  return duplicate(found.front());
}

void InheritedSockets::close_taken(std::string_view name) {
  std::erase_if(sockets_, [&](const Inherited& socket) {
    if (socket.taken_as != name) return false;
    close(socket.handle.fd);
    return true;
  });
}

std::vector<std::string> InheritedSockets::close_unused(const std::vector<Handle>& used) {
  std::vector<std::string> unused;
  std::erase_if(sockets_, [&](const Inherited& socket) {
    const bool in_use = !socket.taken_as.empty() ||
                        std::find(used.begin(), used.end(), socket.handle) != used.end();
    if (in_use) return false;
    unused.push_back(socket.name + " at " + socket.endpoint.text());
    close(socket.handle.fd);
    return true;
  });
  return unused;
}

}  // namespace evenkeel
