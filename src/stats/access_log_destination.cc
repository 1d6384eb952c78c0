// Opens what an access log is written to.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/access_log_format.h"
#include "syslog_socket.h"

namespace evenkeel {
namespace {

int open_file(const char* path) {
  // O_NONBLOCK: a slow reader of a named pipe cannot block writes.
  constexpr int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const int fd = ::open(path, O_WRONLY | flags, 0640);
  if (fd >= 0 || errno != ENXIO) return fd;
  // A named pipe without a reader. Open for both, it keeps the first lines until one comes.
  return ::open(path, O_RDWR | flags, 0640);
}

/// Duplicates an inherited descriptor. Other processes share its open file description, so that
/// must not become non-blocking: a pipe or device, which could block, is opened again instead.
int open_inherited(int fd) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return -1;
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const int anew = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (anew >= 0) return anew;
  }
  return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int open_path(const std::string& path) {
  if (const auto socket = syslog_path(path)) return SyslogSocket(*socket).open();
  if (path == "stdout") return open_inherited(STDOUT_FILENO);
  if (path == "stderr") return open_inherited(STDERR_FILENO);
  return open_file(path.c_str());
}

Error cannot_open(const std::string& path) {
  return {.fault = Fault::internal,
          .detail = "cannot open access log " + path + ": " + std::strerror(errno)};
}

}  // namespace

Result<AccessLogDestination> AccessLogDestination::open(std::string path) {
  const int fd = open_path(path);
  if (fd < 0) return cannot_open(path);
  return AccessLogDestination(std::move(path), fd);
}

}  // namespace evenkeel
