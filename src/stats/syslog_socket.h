// Sends lines to the syslog or journal of this machine: a datagram each, as RFC 3164 has it.
#pragma once

#include <array>
#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

namespace evenkeel {

/// True if the descriptor is a socket.
bool is_socket(int fd);

/// The header of lines, and where they go. Thread: one.
class SyslogSocket {
 public:
  explicit SyslogSocket(std::string path);

  const std::string& path() const { return path_; }
  /// A descriptor for this syslog, which may not listen yet; -1 with errno if it never can.
  int open() const;
  /// Connects a descriptor of `open`. 0, or the number of an error.
  int connect(int fd) const;
  /// Sends a line, of one or two pieces, of which the last byte is its end. Connects once again if
  /// the syslog has gone. 0, or the number of an error: EAGAIN where it does not read in time,
  /// EMSGSIZE where it takes no line that long.
  int send(int fd, std::string_view front, std::string_view back);

 private:
  std::string_view header();

  std::string path_;
  std::string tag_;         // " evenkeel[123]: "
  std::time_t second_ = 0;  // of the header
  std::string header_;
};

}  // namespace evenkeel
