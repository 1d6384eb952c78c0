#include "evenkeel/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "evenkeel/base/owned_fd.h"

namespace evenkeel {
namespace {

FileError failed(int number) { return {number, std::strerror(number)}; }

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::variant<std::string, FileError> read_file(const std::string& path, std::size_t max_size) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return failed(errno);
  struct stat facts{};
  if (fstat(file.get(), &facts) != 0) return failed(errno);
  if (S_ISDIR(facts.st_mode)) return failed(EISDIR);
  if (!S_ISREG(facts.st_mode)) return FileError{0, "not a regular file"};

  std::string text(std::min(max_size, static_cast<std::size_t>(facts.st_size)) + 1, '\0');
  std::size_t size = 0;
  while (size <= max_size) {
    if (size == text.size()) text.resize(std::min(max_size + 1, 2 * size));
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_size) return FileError{0, "larger than " + std::to_string(max_size) + " bytes"};
  text.resize(size);
  return text;
}

bool is_at(const std::string& path, int fd) {
  struct stat open{};
  struct stat present{};
  return fstat(fd, &open) == 0 && stat(path.c_str(), &present) == 0 &&
         open.st_dev == present.st_dev && open.st_ino == present.st_ino;
}

std::variant<std::string, FileError> replaced_file(std::string path) {
  constexpr int max_links = 40;  // as the kernel follows
  for (int links = 0; links < max_links; ++links) {
    struct stat facts{};
    if (lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return path;
    if (facts.st_uid != 0 && facts.st_uid != geteuid()) {
      return FileError{EACCES, "a symbolic link of another user"};
    }
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return failed(error.value());
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return failed(ELOOP);
}

std::optional<FileError> replace_file(const std::string& path, std::string_view text) {
  const auto resolved = replaced_file(path);
  if (const auto* refused = std::get_if<FileError>(&resolved)) return *refused;
  const std::string& target = std::get<std::string>(resolved);
  struct stat facts{};
  if (stat(target.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return failed(EISDIR);
    if (!S_ISREG(facts.st_mode)) return FileError{0, "not a regular file"};
  }
  std::string fresh = target + ".XXXXXX";
  const int file = mkostemp(fresh.data(), O_CLOEXEC);
  if (file < 0) return failed(errno);
  int error = write_all(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(fresh.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return std::nullopt;
  unlink(fresh.c_str());
  return failed(error);
}

}  // namespace evenkeel
