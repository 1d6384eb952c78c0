// The floor under every proxy: passes bytes on between a client and a backend and reads none of
// them. One thread, epoll, one backend connection for each client connection.
//
//   bench_relay --listen ADDRESS --backend ADDRESS [--backend ADDRESS ...]
//
// What it costs beside a proxy in the same run is what the kernel takes for moving the bytes.

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/flags.h"
#include "bench/sockets.h"

namespace evenkeel::bench {
namespace {

constexpr std::size_t block_bytes = std::size_t{256} * 1024;

/// One direction of a relayed connection.
struct Direction {
  int from = -1;
  int to = -1;
  std::string unsent;  // what `to` did not take yet
  bool ended = false;
};

/// Two connections, in the order client and backend; directions[i] reads from ends[i].
struct Pair {
  std::array<FileDescriptor, 2> ends;
  std::array<Direction, 2> directions;
  bool broken = false;
};

class Relay {
 public:
  Relay(const sockaddr_in& address, std::vector<sockaddr_in> backends)
      : epoll_(epoll_create1(EPOLL_CLOEXEC)),
        listener_(listen_on(address)),
        backends_(std::move(backends)),
        block_(block_bytes) {
    add(listener_.get(), EPOLLIN);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    while (true) {
      const int count =
          epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener_.get()) {
          accept_all();
        } else if (const auto pair = pairs_[static_cast<std::size_t>(fd)]; pair != nullptr) {
          serve(*pair);
        }
      }
    }
  }

 private:
  void add(int fd, std::uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) exit_with_errno("epoll_ctl");
  }

  void accept_all() {
    while (FileDescriptor client = accept_from(listener_.get())) {
      FileDescriptor backend = connect_to(backends_[accepted_++ % backends_.size()]);
      if (!backend) continue;
      auto pair = std::make_shared<Pair>();
      const std::array<int, 2> fds = {client.get(), backend.get()};
      pair->ends = {std::move(client), std::move(backend)};
      for (const std::size_t i : {0U, 1U}) {
        pair->directions[i] = {.from = fds[i], .to = fds[1 - i], .unsent = {}};
        const auto place = static_cast<std::size_t>(fds[i]);
        if (pairs_.size() <= place) pairs_.resize(place + 1);
        pairs_[place] = pair;
        add(fds[i], EPOLLIN | EPOLLOUT | EPOLLET);
      }
    }
  }

  void serve(Pair& pair) {
    for (Direction& direction : pair.directions) {
      while (!pair.broken && move_some(pair, direction)) {
      }
    }
    if (!pair.broken && !(pair.directions[0].ended && pair.directions[1].ended)) return;
    for (const FileDescriptor& end : pair.ends) {
      pairs_[static_cast<std::size_t>(end.get())].reset();  // the caller has it still
    }
  }

  /// Whether there may be more to move now.
  bool move_some(Pair& pair, Direction& direction) {
    if (!direction.unsent.empty()) {
      const std::size_t sent = send_some(pair, direction, direction.unsent);
      direction.unsent.erase(0, sent);
      if (!direction.unsent.empty()) return false;
    }
    if (direction.ended) return false;
    const ssize_t got = recv(direction.from, block_.data(), block_.size(), 0);
    if (got < 0) {
      pair.broken = pair.broken || (errno != EAGAIN && errno != ENOTCONN);
      return false;
    }
    if (got == 0) {
      direction.ended = true;
      shutdown(direction.to, SHUT_WR);
      return false;
    }
    const std::string_view bytes(block_.data(), static_cast<std::size_t>(got));
    const std::size_t sent = send_some(pair, direction, bytes);
    direction.unsent = bytes.substr(sent);
    // A short read has emptied the socket: what comes next is a new edge.
    return bytes.size() == block_.size() && direction.unsent.empty();
  }

  static std::size_t send_some(Pair& pair, const Direction& direction, std::string_view bytes) {
    const ssize_t sent = send(direction.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    pair.broken = pair.broken || (errno != EAGAIN && errno != ENOTCONN);
    return 0;
  }

  FileDescriptor epoll_;
  FileDescriptor listener_;
  std::vector<sockaddr_in> backends_;
  std::size_t accepted_ = 0;
  std::vector<std::shared_ptr<Pair>> pairs_;  // by descriptor
  std::vector<char> block_;
};

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  const std::string address = flags.text("--listen", "127.0.0.1:0");
  std::vector<sockaddr_in> backends;
  for (const std::string& backend : flags.all("--backend")) {
    backends.push_back(parse_address(backend));
  }
  flags.reject_unknown();
  if (backends.empty()) exit_with_usage_error("--backend ADDRESS is needed");
  raise_file_limit();
  Relay(parse_address(address), std::move(backends)).run();
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  return evenkeel::bench::run(argument_count, arguments);
}
