// The file of the audit log, to which several processes may append the same chain.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/audit/audit_record.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Appends records to the file at a path. Each is appended under a lock of the file (flock), behind
/// what is its last record then: a process that takes over and the one that it replaces write one
/// chain. Only a record that is intact is continued. A file that was moved away is followed by a
/// new one at the path, whose first record continues it.
///
/// Records are only appended. What a process that was killed has left of one ends in a line of its
/// own, and the next record says how long it is.
///
/// Thread: one.
class AuditFile {
 public:
  /// Opens the file, or creates it with mode 0640. `key`: of the hashes; empty: none. Errors:
  /// internal: it cannot be opened, or has records of which none near its end is intact.
  static Result<AuditFile> open(std::string path, std::string key);

  /// Appends a record with these JSON members. 0, or errno: nothing is appended.
  int append(std::string_view members);
  /// Waits until the disk has what was appended. 0, or errno.
  int sync();
  const AuditHead& head() const { return head_; }

 private:
  AuditFile(std::string path, std::string key, OwnedFd fd)
      : path_(std::move(path)), key_(std::move(key)), fd_(std::move(fd)) {}

  int lock_last();
  int read_head();
  void continue_moved_file();
  int write_line(std::string_view members);

  std::string path_;
  std::string key_;
  OwnedFd fd_;
  AuditHead head_;
  off_t known_size_ = -1;         // of the file when its end was read, or written; -1: it was not
  std::uint64_t torn_bytes_ = 0;  // behind its last record
  bool ends_in_line_ = false;     // those lack a line end
};

}  // namespace evenkeel
