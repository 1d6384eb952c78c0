#include "evenkeel/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace evenkeel {

std::variant<std::string, FileError> read_file(const std::string& path, std::size_t max_size) {
  const auto failed = [](int number) { return FileError{number, std::strerror(number)}; };
  struct Descriptor {
    int number;
    ~Descriptor() {
      if (number >= 0) close(number);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0) return failed(errno);
  struct stat facts{};
  if (fstat(file.number, &facts) != 0) return failed(errno);
  if (S_ISDIR(facts.st_mode)) return failed(EISDIR);
  if (!S_ISREG(facts.st_mode)) return FileError{0, "not a regular file"};

  std::string text(max_size + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.number, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_size) return FileError{0, "larger than " + std::to_string(max_size) + " bytes"};
  text.resize(size);
  return text;
}

}  // namespace evenkeel
