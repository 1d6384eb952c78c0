#include "evenkeel/net/socket.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "evenkeel/base/owned_fd.h"
#include "net/tls_state.h"

namespace evenkeel {
namespace {

Error client_or_backend_gone(const char* what) {
  return Error{.fault = Fault::client_gone, .side = Side::client, .detail = what};
}

/// Lets the kernel end a connection to a server that has gone without a word: one that acknowledges
/// nothing of what we sent (which includes that its window stays closed), and, when there is
/// nothing to acknowledge, no probe.
void detect_dead_peer(int fd) {
  constexpr int max_silence_s = 60;
  constexpr int probe_interval_s = 10;
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, max_silence_s * 1000);
  set(IPPROTO_TCP, TCP_KEEPIDLE, probe_interval_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, probe_interval_s);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

/// When a peer that takes nothing is given up.
class WriteDeadline {
 public:
  /// `queued`: bytes that the peer has not acknowledged, here and below.
  WriteDeadline(Loop& loop, Duration timeout, int queued)
      : loop_(loop), timeout_(timeout), queued_(queued) {
    extend();
  }
  /// The time at which the queue is looked at again. A part of the timeout: a queue that shrinks
  /// once, as what was just written is on its way, may not extend it by a whole one.
  Instant next_look() const { return std::min(deadline_, loop_.now() + timeout_ / 8); }
  /// True if the peer is to be given up, called at `next_look`. The kernel reports a socket as
  /// writable only when much of its buffer is free; a slow peer takes bytes long before that.
  bool expired(int queued) {
    if (std::exchange(queued_, queued) > queued) extend();
    return loop_.now() >= deadline_;
  }
  /// The socket took bytes.
  void extend() { deadline_ = loop_.now() + timeout_; }

 private:
  Loop& loop_;
  Duration timeout_;
  Instant deadline_{};
  int queued_;
};

}  // namespace

Socket::Socket(Loop& loop, int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch_.open(loop, fd);
}

Socket::~Socket() {
  if (tls_ != nullptr) tls_->send_close_notify();
  const int fd = watch_.fd();
  watch_.release_before_close();  // closing it removes it from the epoll set
  close(fd);
}

Socket::Read Socket::read_some(char* place, std::size_t size) {
  assert(size > 0);
  if (tls_ != nullptr) return tls_->read_some(place, size);
  ssize_t got;
  do {
    got = recv(watch_.fd(), place, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    // Fewer bytes than requested: the kernel's queue is empty, and new data raises a new edge.
    if (static_cast<std::size_t>(got) < size) watch_.mark_drained();
    return {ReadStatus::bytes, static_cast<std::size_t>(got)};
  }
  if (got == 0) return {ReadStatus::end};
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    watch_.mark_not_readable();
    return {ReadStatus::would_block};
  }
  return {ReadStatus::failure};
}

std::ptrdiff_t Socket::send_pieces(std::string_view head, std::string_view body,
                                   std::string_view tail) {
  ssize_t sent;
  if (body.empty() && tail.empty()) [[likely]] {  // a head with its small body
    do {
      sent = send(watch_.fd(), head.data(), head.size(), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }
  iovec pieces[3];
  std::size_t count = 0;
  for (const std::string_view piece : {head, body, tail}) {
    if (piece.empty()) continue;
    pieces[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  do {
    sent = count == 1 ? send(watch_.fd(), pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL)
                      : sendmsg(watch_.fd(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

Task<Result<Done>> Socket::write(std::string_view head, std::string_view body,
                                 std::string_view tail, Duration timeout) {
  const std::size_t total = head.size() + body.size() + tail.size();
  if (total == 0) return Result<Done>(Done{});
  if (tls_ != nullptr) return write_encrypted(head, body, tail, timeout);
  std::ptrdiff_t sent = send_pieces(head, body, tail);
  if (sent == static_cast<std::ptrdiff_t>(total)) return Result<Done>(Done{});
  if (sent < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      return Result<Done>(client_or_backend_gone(std::strerror(errno)));
    }
    sent = 0;
  }
  watch_.mark_not_writable();
  return write_rest(head, body, tail, static_cast<std::size_t>(sent), timeout);
}

Task<Result<Done>> Socket::write_rest(std::string_view head, std::string_view body,
                                      std::string_view tail, std::size_t sent, Duration timeout) {
  const auto skip = [](std::string_view& piece, std::size_t& count) {
    const std::size_t taken = std::min(piece.size(), count);
    piece.remove_prefix(taken);
    count -= taken;
  };
  skip(head, sent);
  skip(body, sent);
  skip(tail, sent);
  const std::string kept_head(head);
  const std::string kept_tail(tail);
  head = kept_head;
  tail = kept_tail;

  WriteDeadline deadline(loop(), timeout, send_queue_bytes());
  while (!head.empty() || !body.empty() || !tail.empty()) {
    auto wake = co_await watch_.until_writable(deadline.next_look());
    if (wake == Wake::expired) {
      if (!deadline.expired(send_queue_bytes())) continue;
      co_return Error{
          .fault = Fault::write_timeout, .side = Side::client, .detail = "the peer reads nothing"};
    }
    const std::ptrdiff_t more = send_pieces(head, body, tail);
    if (more < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        co_return client_or_backend_gone(std::strerror(errno));
      }
      watch_.mark_not_writable();
      continue;
    }
    deadline.extend();
    auto count = static_cast<std::size_t>(more);
    if (count < head.size() + body.size() + tail.size()) watch_.mark_not_writable();
    skip(head, count);
    skip(body, count);
    skip(tail, count);
  }
  co_return Done{};
}

int Socket::send_queue_bytes() const {
  int bytes = 0;
  return ioctl(watch_.fd(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void Socket::limit_unsent(int bytes) {
  setsockopt(watch_.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

std::unique_ptr<Socket> Socket::adopt(Loop& loop, int fd) {
  try {
    return std::make_unique<Socket>(loop, fd);
  } catch (const std::system_error&) {
    close(fd);
  }
  return nullptr;
}

std::size_t Socket::write_now(std::string_view bytes) {
  if (tls_ != nullptr) return tls_->write_now(bytes);
  const ssize_t sent = send(watch_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

bool Socket::is_idle_and_open(bool ask_kernel) {
  if (watch_.peer_closed()) return false;
  if (!ask_kernel && !watch_.readable()) return true;
  if (tls_ != nullptr) return tls_->is_idle_and_open();
  char byte;
  const auto got = recv(watch_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_idle = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (is_idle) watch_.mark_not_readable();
  return is_idle;
}

void Socket::shutdown_write() {
  if (tls_ != nullptr) tls_->send_close_notify();
  shutdown(watch_.fd(), SHUT_WR);
}

void Socket::reset() {
  if (tls_ != nullptr) tls_->abandon();
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(watch_.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

// ---- TLS ----------------------------------------------------------------------------------------

const TlsConnectionInfo* Socket::tls() const { return tls_ == nullptr ? nullptr : &tls_->info(); }

void Socket::discard_tls() { tls_.reset(); }

TlsOutcome Socket::tls_outcome() const { return tls_->outcome(); }

Task<Result<Done>> Socket::accept_tls(std::shared_ptr<const TlsServerContext> server,
                                      Instant deadline) {
  tls_ = TlsState::accepting(watch_, std::move(server));
  return handshake_tls(Side::client, deadline);
}

Task<Result<Done>> Socket::connect_tls(std::shared_ptr<const TlsClientContext> client,
                                       std::string server_name, AlpnOffer offer,
                                       std::shared_ptr<TlsSessionCache> sessions,
                                       Instant deadline) {
  tls_ = TlsState::connecting(watch_, std::move(client), server_name, offer, std::move(sessions));
  return handshake_tls(Side::backend, deadline);
}

Task<Result<Done>> Socket::handshake_tls(Side peer, Instant deadline) {
  while (true) {
    switch (tls_->handshake()) {
      case TlsState::Step::done: co_return Done{};
      case TlsState::Step::failed:
        co_return Error{.fault = Fault::tls_failed,
                        .side = peer,
                        .not_processed = true,
                        .detail = tls_->error_text()};
      case TlsState::Step::wants_read: {
        auto wake = co_await watch_.until_readable(deadline);
        if (wake == Wake::ready) continue;
        break;  // expired or interrupted
      }
      case TlsState::Step::wants_write: {
        auto wake = co_await watch_.until_writable(deadline);
        if (wake != Wake::expired) continue;
        break;
      }
    }
    tls_->expire();
    co_return Error{.fault = peer == Side::backend ? Fault::connect_timeout : Fault::tls_failed,
                    .side = peer,
                    .not_processed = true,
                    .detail = tls_->error_text()};
  }
}

Task<Result<Done>> Socket::write_encrypted(std::string_view head, std::string_view body,
                                           std::string_view tail, Duration timeout) {
  PlaintextPieces pieces{head, body, tail};
  const TlsState::Step step = tls_->push(pieces);
  if (step == TlsState::Step::done) return Result<Done>(Done{});
  if (step == TlsState::Step::failed) {
    return Result<Done>(client_or_backend_gone(tls_->error_text().c_str()));
  }
  return write_rest_encrypted(pieces.head, pieces.body, pieces.tail, timeout);
}

Task<Result<Done>> Socket::write_rest_encrypted(std::string_view head, std::string_view body,
                                                std::string_view tail, Duration timeout) {
  const std::string kept_head(head);
  const std::string kept_tail(tail);
  PlaintextPieces pieces{kept_head, body, kept_tail};
  WriteDeadline deadline(loop(), timeout, send_queue_bytes());
  while (true) {
    auto wake = co_await watch_.until_writable(deadline.next_look());
    if (wake == Wake::expired) {
      if (!deadline.expired(send_queue_bytes())) continue;
      co_return Error{
          .fault = Fault::write_timeout, .side = Side::client, .detail = "the peer reads nothing"};
    }
    const TlsState::Step step = tls_->push(pieces);
    deadline.extend();
    if (step == TlsState::Step::done) co_return Done{};
    if (step == TlsState::Step::failed) {
      co_return client_or_backend_gone(tls_->error_text().c_str());
    }
  }
}

// ---- dialling -----------------------------------------------------------------------------------

namespace {

Error connect_error(int number) {
  return Error{.fault = Fault::connect_failed,
               .side = Side::backend,
               .not_processed = true,
               .detail = std::strerror(number)};
}

/// Out of descriptors, memory or ports: our own lack, which ends soon, and says nothing of the
/// backend.
Error connect_lack(int number) {
  return Error{.fault = Fault::overloaded,
               .side = Side::proxy,
               .not_processed = true,
               .detail = std::string("no connection to a backend: ") + std::strerror(number)};
}

bool is_lack(int number) {
  return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

/// True if `connect` failed because no local port is left. The kernel gives the same number if the
/// host has no address from which it could reach the server, such as ::1 where IPv6 is off: UDP,
/// whose ports are others, then gets it too.
bool is_lack_of_ports(int number, const Endpoint& server) {
  if (number == EAGAIN) return true;
  if (number != EADDRNOTAVAIL) return false;
  const OwnedFd datagrams{socket(server.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  return datagrams.get() >= 0 && connect(datagrams.get(), server.address(), server.size) == 0;
}

}  // namespace

Task<Result<int>> dial(Loop& loop, const Endpoint& endpoint, Instant deadline) {
  OwnedFd owned{socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (owned.get() < 0) {
    if (is_lack(errno)) co_return connect_lack(errno);
    Error error = connect_error(errno);
    error.side = Side::proxy;  // such as a family of addresses that the host does not have
    co_return error;
  }
  detect_dead_peer(owned.get());
  if (connect(owned.get(), endpoint.address(), endpoint.size) != 0) {
    const int failure = errno;
    if (is_lack(failure) || is_lack_of_ports(failure, endpoint)) co_return connect_lack(failure);
    if (failure != EINPROGRESS) co_return connect_error(failure);
    Watch watch;
    if (!watch.try_open(loop, owned.get())) co_return connect_lack(errno);
    auto wake = co_await watch.until_writable(deadline);
    if (wake == Wake::expired) {
      co_return Error{.fault = Fault::connect_timeout,
                      .side = Side::backend,
                      .not_processed = true,
                      .detail = "the backend did not answer the connection attempt"};
    }
    int problem = 0;
    socklen_t size = sizeof problem;
    getsockopt(owned.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0) co_return connect_error(problem);
  }
  co_return owned.take();
}

}  // namespace evenkeel
