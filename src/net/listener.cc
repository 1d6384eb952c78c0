#include "evenkeel/net/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/refusal_text.h"

namespace evenkeel {
namespace {

constexpr int accept_batch = 64;  // then the loop's other work runs
constexpr Duration max_pause = std::chrono::milliseconds(100);

const char* cure_of(int number) {
  switch (number) {
    case EADDRINUSE: return "; stop the process that uses it (`ss -ltnp`), or take another port";
    case EACCES: return "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL: return "; no interface of this machine has the address";
    default: return "";
  }
}

/// Makes an error of errno.
Error listen_error(const Endpoint& endpoint) {
  const int number = errno;
  return Error{.fault = Fault::internal,
               .detail = "cannot listen on " + endpoint.text() + ": " + refusal_text("", number) +
                         cure_of(number)};
}

/// `shared`: other sockets of ours may be on the port; else the port must be free, and others may
/// join from then on. Without `listening` the socket is bound only, and takes no connections.
Result<int> open_socket(const Endpoint& endpoint, bool shared, bool listening) {
  OwnedFd owned(socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = owned.get();
  const int on = 1;
  const auto share = [&] { setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on); };
  if (fd >= 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared) share();
    if (::bind(fd, endpoint.address(), endpoint.size) == 0) {
      if (!shared) share();
      if (!listening || listen(fd, SOMAXCONN) == 0) return owned.take();
    }
  }
  return listen_error(endpoint);
}

}  // namespace

Result<int> Listener::bind(const Endpoint& endpoint) { return open_socket(endpoint, false, true); }
Result<int> Listener::bind_shared(const Endpoint& endpoint) {
  return open_socket(endpoint, true, true);
}

Result<int> Listener::bind_shared_idle(const Endpoint& endpoint) {
  return open_socket(endpoint, true, false);
}

bool Listener::is_listening(int fd) {
  int answer = 0;
  socklen_t size = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &size) == 0 && answer != 0;
}

Result<Done> Listener::begin_listening(int fd) {
  if (is_listening(fd) || listen(fd, SOMAXCONN) == 0) return Done{};
  return listen_error(local_endpoint(fd));
}

Result<Done> Listener::check_bind(const Endpoint& endpoint, bool shared) {
  auto bound = open_socket(endpoint, shared, false);
  if (!bound) return std::move(bound.error());
  close(*bound);
  return Done{};
}

Result<Done> Listener::check_watches(const std::vector<int>& fds) {
  const OwnedFd epoll(epoll_create1(EPOLL_CLOEXEC));
  bool watched = epoll.get() >= 0;
  for (std::size_t i = 0; watched && i < fds.size(); ++i) {
    epoll_event event{};
    watched = epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fds[i], &event) == 0;
  }
  if (watched) return Done{};
  return Error{.fault = Fault::internal,
               .detail = "cannot wait for connections: " + refusal_text("epoll", errno)};
}

Listener::Listener(Loop& loop, int fd, AcceptCallback accepted, ExhaustedCallback exhausted,
                   RoomCallback has_room)
    : watch_(loop, fd),
      accepted_(std::move(accepted)),
      exhausted_(std::move(exhausted)),
      has_room_(std::move(has_room)) {
  watch_.on_readable(&ready_);
}

Listener::~Listener() {
  const int fd = watch_.fd();
  watch_.release();
  close(fd);
  if (kept_fd_ >= 0) close(kept_fd_);
}

Endpoint Listener::local_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.size);
  return endpoint;
}

void Listener::accept_pending() {
  // No more than the kernel's queue can hold: clients that keep connecting must not keep us here.
  for (int accepted = 0; accepted < SOMAXCONN; accepted += accept_batch) {
    if (!accept_some(accept_batch)) return;
  }
}

void Listener::on_readable() {
  if (!pause_.armed()) accept_all();
}

void Listener::accept_all() {
  if (accept_some(accept_batch)) watch_.loop().wake_soon(ready_);  // after the loop's other work
}

void Listener::pause() { pause_.arm(watch_.loop(), watch_.loop().now() + max_pause); }

void Listener::resume() {
  if (!pause_.armed()) return;
  pause_.disarm();
  watch_.loop().wake_soon(ready_);
}

void Listener::accept_kept() {
  if (kept_fd_ >= 0) accepted_(std::exchange(kept_fd_, -1), kept_peer_);
}

/// False if there is no room, and the connection is kept.
bool Listener::offer(int fd, const Endpoint& peer) {
  const Room room = has_room_ ? has_room_(fd, peer) : Room::free;
  if (room == Room::none) {
    kept_fd_ = fd;
    kept_peer_ = peer;
    pause();
    return false;
  }
  kept_fd_ = -1;
  if (room == Room::refused) {
    close(fd);
  } else {
    accepted_(fd, peer);
  }
  return true;
}

/// Gives the kept connection the lowest free number: room is judged by it, and this one is from
/// when descriptors were scarce.
void Listener::take_lower_number() {
  const int other = fcntl(kept_fd_, F_DUPFD_CLOEXEC, 0);
  if (other < 0) return;
  if (other < kept_fd_) {
    close(std::exchange(kept_fd_, other));
  } else {
    close(other);
  }
}

/// True if more connections may be pending.
bool Listener::accept_some(int max_count) {
  if (kept_fd_ >= 0) {
    take_lower_number();
    if (!offer(kept_fd_, Endpoint(kept_peer_))) return false;
  }
  for (int i = 0; i < max_count; ++i) {
    Endpoint peer;
    peer.size = sizeof peer.storage;
    const int fd = accept4(watch_.fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (!offer(fd, peer)) return false;
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      watch_.mark_not_readable();
      return false;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (exhausted_) exhausted_();
      pause();
      return false;
    }
    // ECONNABORTED and the like: this connection is gone, the next may be fine.
  }
  return true;
}

}  // namespace evenkeel
