// Sends lines to the syslog or journal of this machine: a datagram each, as RFC 3164 has it.
#pragma once

#include <sys/un.h>

#include <array>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

namespace evenkeel {

/// True if the descriptor is a socket.
bool is_socket(int fd);

/// The header of lines, and where they go. Thread: one.
class SyslogSocket {
 public:
  /// A descriptor that is connected to the socket at `path`; -1 with errno.
  static int open(const std::string& path);
  /// Null if the descriptor is not one of `open`.
  static std::unique_ptr<SyslogSocket> of(int fd);

  /// Sends a line, of one or two pieces, of which the last byte is its end. Connects once again if
  /// the syslog has gone. 0, or the number of an error: EAGAIN where it does not read in time,
  /// EMSGSIZE where it takes no line that long.
  int send(int fd, std::string_view front, std::string_view back);

 private:
  SyslogSocket(const sockaddr_un& address, socklen_t size);
  std::string_view header();

  sockaddr_un address_;
  socklen_t address_size_;
  std::string tag_;         // " evenkeel[123]: "
  std::time_t second_ = 0;  // of the header
  std::string header_;
};

}  // namespace evenkeel
