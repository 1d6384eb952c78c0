#include "bench/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "bench/flags.h"

namespace evenkeel::bench {
namespace {

constexpr int kBacklog = 4096;
constexpr rlim_t kFilesWanted = 65536;
constexpr int kSlowReceiveBytes = 4096;
constexpr int kEthernetSegmentBytes = 1448;
constexpr int kUnsentBytes =
    65536;  // a thousand large responses must not exhaust the kernel's TCP memory

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

const sockaddr* as_sockaddr(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void FileDescriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

sockaddr_in parse_address(std::string_view text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) exit_with_usage_error("not HOST:PORT: " + std::string(text));
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  const std::string host(text.substr(0, colon));
  if (parsed.ec != std::errc{} || inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    exit_with_usage_error("not HOST:PORT: " + std::string(text));
  }
  address.sin_port = htons(port);
  return address;
}

std::string to_text(const sockaddr_in& address) {
  char host[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(ntohs(address.sin_port));
}

FileDescriptor listen_on(const sockaddr_in& address) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) exit_with_errno("socket");
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), as_sockaddr(address), sizeof address) != 0) exit_with_errno("bind");
  if (listen(fd.get(), kBacklog) != 0) exit_with_errno("listen");
  return fd;
}

FileDescriptor connect_to(const sockaddr_in& address, Path path) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (path == Path::kNarrow) {
    set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, kSlowReceiveBytes);
    set_option(fd.get(), IPPROTO_TCP, TCP_MAXSEG, kEthernetSegmentBytes);
  }
  if (connect(fd.get(), as_sockaddr(address), sizeof address) != 0 && errno != EINPROGRESS) {
    fd.reset();
  }
  return fd;
}

FileDescriptor accept_from(int listener) {
  FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return fd;
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  return fd;
}

sockaddr_in bound_address(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    exit_with_errno("getsockname");
  return address;
}

void raise_file_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit wanted{.rlim_cur = kFilesWanted, .rlim_max = std::max(limit.rlim_max, kFilesWanted)};
  if (limit.rlim_cur < kFilesWanted && setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void exit_with_errno(std::string_view what) {
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(what.size()), what.data(), strerror(errno));
  std::exit(1);
}

}  // namespace evenkeel::bench
