// How far the records of a usage file were sent, in a file beside it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Where the records end that were sent. A file is known by its first record: that stays the same
/// when the file is moved or copied, while its inode may be that of another file later.
struct UsagePosition {
  std::string file;          ///< the id of the file's first record; empty: nothing was ever sent
  std::uint64_t offset = 0;  ///< in that file, in bytes
  std::string last;          ///< the id of the record in front of it; empty: there is none

  bool operator==(const UsagePosition&) const = default;
};

/// The file that keeps the position of a usage file.
inline std::string usage_position_path(const std::string& usage_path) {
  return usage_path + ".sent";
}

/// The file that keeps a position. One process at a time has it, and with it the records to send.
///
/// Thread: one.
class UsagePositionFile {
 public:
  explicit UsagePositionFile(std::string path) : path_(std::move(path)) {}

  /// Creates the file if need be, and locks it. False: another process has it.
  Result<bool> lock();
  bool is_locked() const { return fd_.get() >= 0; }
  /// The position that was written last. Errors: the text is none. REQUIRES: the file is locked.
  Result<UsagePosition> read() const;
  /// Replaces the file, and waits for the disk: after a crash it has the old position or the new
  /// one. REQUIRES: the file is locked.
  Result<Done> write(const UsagePosition& position);

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  OwnedFd fd_;  // which holds the lock
};

}  // namespace evenkeel
