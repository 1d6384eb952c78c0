#include "evenkeel/base/refusal_text.h"

#include <cerrno>
#include <cstring>

namespace evenkeel {
namespace {

std::string_view cure_of(int error) {
  switch (error) {
    case EMFILE: return "; raise the limit of file descriptors (ulimit -n, LimitNOFILE=)";
    case ENFILE: return "; the system has no file descriptor left: raise the sysctl fs.file-max";
    case ENOSPC: return "; raise the sysctl fs.epoll.max_user_watches";
    case ENOMEM: return "; the kernel has no memory for it: raise the memory limit";
    case EAGAIN: return "; raise the limit of threads (ulimit -u, TasksMax=, pids.max)";
    default: return "";
  }
}

}  // namespace

std::string refusal_text(std::string_view what, int error) {
  std::string text(what);
  if (!text.empty()) text += ": ";
  text += std::strerror(error);
  text += cure_of(error);
  return text;
}

}  // namespace evenkeel
