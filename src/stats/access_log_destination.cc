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

Error cannot_open(const std::string& path, LogPurpose purpose) {
  const char* const what = purpose == LogPurpose::usage ? "file of usage records " : "access log ";
  return {.fault = Fault::internal,
          .detail = std::string("cannot open ") + what + path + ": " + std::strerror(errno)};
}

/// True if the file does not end with a whole line, or that cannot be read.
bool is_torn(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status{};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) return true;
  if (status.st_size == 0) return false;
  char last = 0;
  return pread(fd.get(), &last, 1, status.st_size - 1) != 1 || last != '\n';
}

}  // namespace

Result<AccessLogDestination> AccessLogDestination::open(std::string path, LogPurpose purpose) {
  const bool is_usage = purpose == LogPurpose::usage;
  const int fd = is_usage ? open_file(path.c_str()) : open_path(path);
  if (fd < 0) return cannot_open(path, purpose);
  const bool torn = is_usage && is_torn(path);
  return AccessLogDestination(std::move(path), fd, torn);
}

}  // namespace evenkeel
