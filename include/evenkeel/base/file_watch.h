// Noticing that a file has changed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// One version of a file, by what the file system says of it.
struct FileVersion {
  dev_t device = 0;
  ino_t number = 0;
  off_t size = 0;
  std::int64_t modified_ns = 0;

  bool operator==(const FileVersion&) const = default;
};
/// Nothing if there is no such file.
std::optional<FileVersion> version_of(const std::string& file);

/// Notices that a file has changed. Thread: the control loop's.
class FileWatch {
 public:
  static constexpr Duration interval = std::chrono::milliseconds(400);

  /// Looks at this file from now on, of which a version was read; empty: at none.
  void follow(const std::string& file, std::optional<FileVersion> version);
  /// True once for each version that the file gets, after it has stayed the same for an interval,
  /// so that it is not read while it is being written. One that never rests counts every second.
  /// Call it often.
  bool has_changed(Instant now);

 private:
  std::string file_;
  std::optional<FileVersion> known_;   // that was read; nothing: there is no such file
  std::optional<FileVersion> latest_;  // that was seen last
  Instant next_look_{};
  std::optional<Instant> changed_since_;  // seen, but not reported
};

}  // namespace evenkeel
