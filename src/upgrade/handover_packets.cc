#include "evenkeel/upgrade/handover_packets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <sstream>

#include "evenkeel/base/owned_fd.h"

namespace evenkeel {
namespace {

// A packet is a line with the version, then a line per listener: how many of the packet's
// descriptors are its own, port, host, name. The last packet has the other first line.
constexpr std::string_view sockets_line = "evenkeel sockets 1\n";
constexpr std::string_view end_line = "evenkeel sockets 1 end\n";
// Precedes the state: a packet of this line and the descriptor of a file with the state.
constexpr std::string_view state_line = "evenkeel state\n";
constexpr std::size_t max_packet_fds = 250;  // SCM_MAX_FD is 253
constexpr std::size_t max_packet_bytes = 64 * 1024;

struct Packet {
  std::string text;
  std::vector<int> fds;
};

using ControlBuffer = std::array<std::byte, CMSG_SPACE(max_packet_fds * sizeof(int))>;

bool send_packet(int channel, Packet& packet) {
  iovec data{.iov_base = packet.text.data(), .iov_len = packet.text.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) ControlBuffer control{};
  if (!packet.fds.empty()) {
    const std::size_t size = packet.fds.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), packet.fds.data(), size);
  }
  return sendmsg(channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

std::optional<Packet> receive_packet(int channel) {
  Packet packet;
  packet.text.resize(max_packet_bytes);
  iovec data{.iov_base = packet.text.data(), .iov_len = packet.text.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size <= 0) return std::nullopt;
  packet.text.resize(static_cast<std::size_t>(size));
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    packet.fds.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(packet.fds.data(), CMSG_DATA(header), packet.fds.size() * sizeof(int));
  }
  return packet;
}

Error failure(std::string detail) {
  return Error{.fault = Fault::internal, .detail = std::move(detail)};
}

/// Appends the listeners of a packet. False: it is malformed.
bool read_packet(Packet packet, std::vector<HandedOverListener>& listeners) {
  std::istringstream lines(packet.text.substr(sockets_line.size()));
  auto fd = packet.fds.begin();
  std::ptrdiff_t count = 0;
  HandedOverListener each;
  while (lines >> count >> each.address.port >> each.address.host >> each.name) {
    if (count < 0 || count > packet.fds.end() - fd) break;
    each.fds.assign(fd, fd + count);
    fd += count;
    listeners.push_back(each);
  }
  const bool complete = lines.eof() && fd == packet.fds.end();
  for (; fd != packet.fds.end(); ++fd) close(*fd);
  return complete;
}

}  // namespace

Result<Done> send_listeners(int channel, const std::vector<HandedOverListener>& listeners) {
  Packet packet{.text = std::string(sockets_line), .fds = {}};
  const auto send = [&] {
    const bool sent = send_packet(channel, packet);
    packet = {.text = std::string(sockets_line), .fds = {}};
    return sent;
  };
  bool sent = true;
  for (const HandedOverListener& listener : listeners) {
    for (std::size_t begin = 0; begin < listener.fds.size();) {
      const auto room = max_packet_fds - packet.fds.size();
      const auto count = std::min(room, listener.fds.size() - begin);
      packet.text += fmt::format("{} {} {} {}\n", count, listener.address.port,
                                 listener.address.host, listener.name);
      const auto first = listener.fds.begin() + static_cast<std::ptrdiff_t>(begin);
      packet.fds.insert(packet.fds.end(), first, first + static_cast<std::ptrdiff_t>(count));
      begin += count;
      if (packet.fds.size() == max_packet_fds) sent = sent && send();
    }
  }
  if (!packet.fds.empty()) sent = sent && send();
  packet.text = end_line;
  sent = sent && send();
  if (sent) return Done{};
  return failure(std::string("cannot pass the listening sockets: ") + std::strerror(errno));
}

Result<std::vector<HandedOverListener>> receive_listeners(int channel) {
  std::vector<HandedOverListener> listeners;
  const auto reject = [&](const char* why) {
    for (const HandedOverListener& listener : listeners) {
      for (const int fd : listener.fds) close(fd);
    }
    return failure(std::string("cannot take over the listening sockets: ") + why);
  };
  while (true) {
    auto packet = receive_packet(channel);
    if (!packet) return reject("they are not complete");
    if (packet->text == end_line) return listeners;
    if (!packet->text.starts_with(sockets_line)) {
      for (const int fd : packet->fds) close(fd);
      return reject("the running process has a version with another format");
    }
    if (!read_packet(std::move(*packet), listeners)) return reject("a packet is malformed");
  }
}

Result<Done> send_state(int channel, const std::string& state) {
  const OwnedFd file(memfd_create("evenkeel-state", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(state.size());
  bool sent = file.get() >= 0 && pwrite(file.get(), state.data(), state.size(), 0) == size;
  if (sent) {
    Packet packet{.text = std::string(state_line), .fds = {file.get()}};
    sent = send_packet(channel, packet);
  }
  if (sent) return Done{};
  return failure(std::string("cannot pass the state: ") + std::strerror(errno));
}

std::optional<std::string> receive_state(int channel) {
  const auto packet = receive_packet(channel);
  if (!packet) return std::nullopt;
  std::string state;
  if (packet->text == state_line && packet->fds.size() == 1) {
    std::array<char, 16 * 1024> buffer{};
    for (off_t at = 0;;) {
      const ssize_t got = pread(packet->fds[0], buffer.data(), buffer.size(), at);
      if (got <= 0) break;
      state.append(buffer.data(), static_cast<std::size_t>(got));
      at += got;
    }
  }
  for (const int fd : packet->fds) close(fd);
  return state;
}

bool is_abandoned(int channel) {
  pollfd end{.fd = channel, .events = 0, .revents = 0};
  return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace evenkeel
