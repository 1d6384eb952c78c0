#include "bench/client_loop.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace evenkeel::bench {
namespace {

constexpr std::size_t kInputBytes = 256 * 1024;
constexpr std::uint64_t kTickNs = 10'000'000;
constexpr std::uint64_t kStopEvent = ~0ULL;

int timeout_ms(std::uint64_t now, std::uint64_t deadline, bool soon) {
  if (now >= deadline) return 0;
  const std::uint64_t left = soon ? std::min(deadline - now, kTickNs) : deadline - now;
  return static_cast<int>(std::min<std::uint64_t>(left / 1'000'000 + 1, 1000));
}

}  // namespace

ClientLoop::ClientLoop(const sockaddr_in& peer)
    : peer_(peer), poll_(epoll_create1(EPOLL_CLOEXEC)), input_(kInputBytes) {}

void ClientLoop::open(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    clients_.emplace_back();
    ++broken_;
    connect(clients_.size() - 1);
  }
}

std::size_t ClientLoop::in_flight() const {
  return static_cast<std::size_t>(std::ranges::count_if(clients_, [](const Client& client) {
    return client.phase == Phase::kSending || client.phase == Phase::kHead ||
           client.phase == Phase::kBody;
  }));
}

void ClientLoop::run(Workload& workload, std::uint64_t deadline_ns, int stop_when_readable) {
  stopped_ = false;
  if (stop_when_readable >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kStopEvent;
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, stop_when_readable,
              &event);  // fails for a plain file; then the deadline ends the run
  }
  std::array<epoll_event, 512> events;
  for (std::uint64_t now = monotonic_ns(); !stopped_ && now < deadline_ns; now = monotonic_ns()) {
    const int ready = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()),
                                 timeout_ms(now, deadline_ns, broken_ > 0));
    if (ready <= 0 && broken_ > 0) reconnect_broken(workload);
    for (int i = 0; i < ready && !stopped_; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kStopEvent) return;
      const std::size_t index = event.data.u64 & 0xffffffffU;
      Client& client = clients_[index];
      if (client.serial != event.data.u64 >> 32 || client.phase == Phase::kBroken) continue;
      client.readable |= (event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      advance(workload, index);
    }
  }
}

void ClientLoop::connect(std::size_t index) {
  Client& client = clients_[index];
  client.fd = connect_to(peer_);
  client.serial = ++last_serial_;
  client.readable = false;
  client.close_after = false;
  client.partial_head.clear();
  if (!client.fd) {
    ++failures_.connect;
    return;
  }
  client.phase = Phase::kConnecting;
  --broken_;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = (static_cast<std::uint64_t>(client.serial) << 32) | index;
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, client.fd.get(), &event) != 0)
    exit_with_errno("epoll_ctl");
}

void ClientLoop::disconnect(std::size_t index, std::uint64_t& counter) {
  ++counter;
  ++broken_;
  clients_[index].phase = Phase::kBroken;
  clients_[index].fd.reset();
}

void ClientLoop::disconnect_unanswered(std::size_t index) {
  const bool idle = clients_[index].phase == Phase::kIdle;
  disconnect(index, idle ? failures_.closed_idle : failures_.closed);
}

void ClientLoop::reconnect_broken(Workload& workload) {
  for (std::size_t index = 0; index < clients_.size() && broken_ > 0; ++index) {
    if (clients_[index].phase != Phase::kBroken) continue;
    connect(index);
    if (clients_[index].phase != Phase::kBroken) advance(workload, index);
  }
}

// Advances this client as far as possible.
void ClientLoop::advance(Workload& workload, std::size_t index) {
  if (clients_[index].phase == Phase::kConnecting && !connected(index)) return;
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore && !stopped_) {
    switch (clients_[index].phase) {
      case Phase::kIdle: progress = start_request(workload, index); break;
      case Phase::kSending:
        progress = send_some(index);
        if (progress == Progress::kBlocked)
          progress = receive_some(workload, index);  // an early response
        break;
      case Phase::kHead:
      case Phase::kBody: progress = receive_some(workload, index); break;
      default: return;
    }
  }
}

bool ClientLoop::connected(std::size_t index) {
  Client& client = clients_[index];
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  if (getpeername(client.fd.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
    client.phase = Phase::kIdle;
    return true;
  }
  int error = 0;
  size = sizeof error;
  getsockopt(client.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) disconnect(index, failures_.connect);
  return false;
}

ClientLoop::Progress ClientLoop::start_request(Workload& workload, std::size_t index) {
  const std::string* request = workload.next_request(index);
  if (request == nullptr) return receive_some(workload, index);  // detects that the peer has closed
  Client& client = clients_[index];
  client.unsent = *request;
  client.finished.began_ns = monotonic_ns();
  client.phase = Phase::kSending;
  return Progress::kMore;
}

ClientLoop::Progress ClientLoop::send_some(std::size_t index) {
  Client& client = clients_[index];
  while (!client.unsent.empty()) {
    const ssize_t sent =
        ::send(client.fd.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return Progress::kBlocked;
    if (sent < 0) {
      disconnect(index, failures_.closed);
      return Progress::kDisconnected;
    }
    client.unsent.remove_prefix(static_cast<std::size_t>(sent));
  }
  client.phase = Phase::kHead;
  return Progress::kMore;
}

ClientLoop::Progress ClientLoop::receive_some(Workload& workload, std::size_t index) {
  Client& client = clients_[index];
  if (!client.readable) return Progress::kBlocked;
  const ssize_t got = recv(client.fd.get(), input_.data(), input_.size(), 0);
  if (got < 0 && errno == EAGAIN) {
    client.readable = false;
    return Progress::kBlocked;
  }
  if (got == 0 && client.phase == Phase::kBody && client.body.ends_with_connection()) {
    client.close_after = true;
    return finish(workload, index);
  }
  if (got <= 0 || client.phase == Phase::kIdle) {
    disconnect_unanswered(index);
    return Progress::kDisconnected;
  }
  return take(workload, index, std::string_view(input_.data(), static_cast<std::size_t>(got)));
}

ClientLoop::Progress ClientLoop::take(Workload& workload, std::size_t index,
                                      std::string_view bytes) {
  Client& client = clients_[index];
  std::string joined;
  if (client.phase != Phase::kBody) {
    if (!client.partial_head.empty()) {
      joined = std::exchange(client.partial_head, {});
      joined.append(bytes);
      bytes = joined;
    }
    if (!consume_head(client, bytes)) {
      if (client.phase != Phase::kBroken) return Progress::kMore;
      disconnect(index, failures_.protocol);
      return Progress::kDisconnected;
    }
  }
  while (!bytes.empty() && !client.body.done() && !client.body.broken()) {
    const BodyParser::Step step = client.body.step(bytes);
    if (!step.payload.empty()) workload.on_payload(index, step.payload);
    bytes.remove_prefix(step.consumed);
  }
  if (client.body.broken() || !bytes.empty()) {
    disconnect(index, failures_.protocol);
    return Progress::kDisconnected;
  }
  return client.body.done() ? finish(workload, index) : Progress::kMore;
}

// False: more bytes are needed, or (phase kBroken) this is not HTTP. Skips interim responses.
bool ClientLoop::consume_head(Client& client, std::string_view& bytes) {
  for (;;) {
    const auto head = parse_head(bytes);
    if (!head) {
      client.partial_head.assign(bytes);
      return false;
    }
    const int status = status_code(head->start_line);
    if (status == 0) {
      client.phase = Phase::kBroken;
      return false;
    }
    bytes.remove_prefix(head->size_bytes);
    if (status / 100 == 1) continue;
    client.close_after = head->close || client.phase == Phase::kSending;
    client.phase = Phase::kBody;
    client.finished.status = status;
    if (status == 204 || status == 304) {
      client.body = BodyParser::none();
    } else if (head->chunked) {
      client.body = BodyParser::chunked();
    } else if (head->content_length) {
      client.body = BodyParser::of_length(*head->content_length);
    } else {
      client.body = BodyParser::until_close();
    }
    return true;
  }
}

ClientLoop::Progress ClientLoop::finish(Workload& workload, std::size_t index) {
  {
    Client& client = clients_[index];
    client.finished.ended_ns = monotonic_ns();
    client.phase = Phase::kIdle;
    if (client.close_after) {
      client.fd.reset();
      client.phase = Phase::kBroken;
      ++broken_;
      connect(index);
    }
  }
  const CompletedExchange finished = clients_[index].finished;
  workload.on_finished(
      index,
      finished);  // may open more clients, which invalidates references into clients_
  return clients_[index].phase == Phase::kIdle ? Progress::kMore : Progress::kDisconnected;
}

}  // namespace evenkeel::bench
