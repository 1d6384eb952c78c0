#include "evenkeel/stats/usage_position.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_bytes = 4096;
constexpr int flags = O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW;

Error failure(const std::string& path, const std::string& why) {
  return {.fault = Fault::internal, .detail = path + ": " + why};
}

bool is_regular(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

Result<bool> UsagePositionFile::lock() {
  while (true) {
    OwnedFd fd(::open(path_.c_str(), O_RDWR | flags, 0640));
    if (fd.get() < 0) return failure(path_, std::strerror(errno));
    if (!is_regular(fd.get())) return failure(path_, "not a regular file");
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno != EINTR) return failure(path_, std::strerror(errno));
      continue;
    }
    // Else the process that had it has replaced it before it ended.
    if (!is_at(path_, fd.get())) continue;
    fd_ = std::move(fd);
    return true;
  }
}

Result<UsagePosition> UsagePositionFile::read() const {
  const auto text = read_file(path_, max_bytes);
  if (const auto* error = std::get_if<FileError>(&text)) return failure(path_, error->why);
  if (std::get<std::string>(text).empty()) return UsagePosition();
  const auto document = parse_json(std::get<std::string>(text));
  if (!document) return failure(path_, document.error().detail);
  UsagePosition position{
      .file = (*document)["file"].text(), .offset = 0, .last = (*document)["last"].text()};
  const std::string& number = (*document)["offset"].number_text();
  const char* const end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, position.offset);
  if (position.file.empty() || parsed.ec != std::errc() || parsed.ptr != end)
    return failure(path_, "no position: expected {\"file\": ID, \"offset\": BYTES}");
  return position;
}

Result<Done> UsagePositionFile::write(const UsagePosition& position) {
  const std::string fresh = path_ + ".new";
  OwnedFd fd(::open(fresh.c_str(), O_WRONLY | O_TRUNC | flags, 0640));
  if (fd.get() < 0) return failure(fresh, std::strerror(errno));
  // Before the file has its name, so that it is locked at any time.
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return failure(fresh, std::strerror(errno));
  JsonValue document;
  document.add("file", position.file);
  document.add("offset", position.offset);
  document.add("last", position.last);
  int error = write_all(fd.get(), json_text(document) + "\n");
  if (error == 0 && fdatasync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (error == 0 && std::rename(fresh.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) {
    fd_ = std::move(fd);
    return Done{};
  }
  unlink(fresh.c_str());
  return failure(path_, std::strerror(error));
}

}  // namespace evenkeel
