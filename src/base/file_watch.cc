#include "evenkeel/base/file_watch.h"

#include <sys/stat.h>

namespace evenkeel {

std::optional<FileVersion> version_of(const std::string& file) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  return FileVersion{.device = status.st_dev,
                     .number = status.st_ino,
                     .size = status.st_size,
                     .modified_ns = status.st_mtim.tv_sec * ns_per_second + status.st_mtim.tv_nsec};
}

void FileWatch::follow(const std::string& file, std::optional<FileVersion> version) {
  file_ = file;
  known_ = latest_ = version;
  changed_since_.reset();
}

bool FileWatch::has_changed(Instant now) {
  if (file_.empty() || now < next_look_) return false;
  next_look_ = now + interval;
  constexpr Duration max_unrest = std::chrono::seconds(1);
  const auto seen = version_of(file_);
  const bool rests = seen == latest_;
  latest_ = seen;
  if (seen == known_) {
    changed_since_.reset();
    return false;
  }
  if (!changed_since_) changed_since_ = now;
  if (!rests && now < *changed_since_ + max_unrest) return false;
  known_ = seen;
  changed_since_.reset();
  return true;
}

}  // namespace evenkeel
