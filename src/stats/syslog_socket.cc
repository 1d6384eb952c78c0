#include "syslog_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace evenkeel {
namespace {

/// The facility local7 and the severity info, which nginx has too.
constexpr std::string_view priority = "<190>";

int send_parts(int fd, std::array<iovec, 3>& parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

iovec part_of(std::string_view text) {
  return {const_cast<char*>(text.data()), text.size()};  // NOLINT: it is only read
}

}  // namespace

bool is_socket(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

SyslogSocket::SyslogSocket(std::string path)
    : path_(std::move(path)), tag_(" evenkeel[" + std::to_string(getpid()) + "]: ") {}

int SyslogSocket::open() const {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int error = connect(fd);
  if (error == 0 || error == ENOENT || error == ECONNREFUSED) return fd;
  ::close(fd);
  errno = error;
  return -1;
}

int SyslogSocket::connect(int fd) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(fd, where, sizeof address) == 0 ? 0 : errno;
}

/// `<190>Nov 28 13:05:07 evenkeel[123]: `, in local time: syslogs expect that of their own machine.
std::string_view SyslogSocket::header() {
  const std::time_t now = std::time(nullptr);
  if (now != second_) {
    second_ = now;
    std::tm local{};
    localtime_r(&now, &local);
    std::array<char, 32> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), "%b %e %H:%M:%S", &local);
    header_.assign(priority).append(text.data(), size).append(tag_);
  }
  return header_;
}

int SyslogSocket::send(int fd, std::string_view front, std::string_view back) {
  std::string_view& last = back.empty() ? front : back;
  last.remove_suffix(1);
  std::array<iovec, 3> parts{part_of(header()), part_of(front), part_of(back)};
  const int error = send_parts(fd, parts);
  if (error != ECONNREFUSED && error != ENOTCONN && error != ECONNRESET && error != EPIPE)
    return error;
  // It has started again, and its socket is another one.
  if (const int refused = connect(fd)) return refused;
  return send_parts(fd, parts);
}

}  // namespace evenkeel
