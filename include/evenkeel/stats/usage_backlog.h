// The records of a usage file that were not sent yet.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"
#include "evenkeel/stats/usage_position.h"

namespace evenkeel {

/// A record that was not sent yet.
struct UnsentRecord {
  std::string json;  ///< a CloudEvent
  std::string id;
  std::chrono::system_clock::time_point time;
  std::uint64_t end = 0;  ///< of its line, in its file
};

/// Reads the records of a usage file in order, from where they were sent up to; PATH.sent keeps
/// that. A file that is moved is read to its end, then those that came after it, and at last the
/// one at the path; one that is truncated, from its copy beside it, then from its beginning. Lines
/// that are no records are skipped, and one without an end is waited for. Files are in the order of
/// their first records: each must be written to for longer than a record waits to be written.
///
/// Thread: one.
class UsageBacklog {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  /// `since`: without a position, moved files that were last written to before it are not sent.
  UsageBacklog(std::string path, WallTime since);

  /// Makes this process the one that sends the records. False: another process is.
  Result<bool> open();
  bool is_open() const { return position_file_.is_locked(); }
  /// The next records, at most this many; none: all were sent. Call it again and again: what was
  /// not marked comes again. REQUIRES: it is open.
  Result<std::vector<UnsentRecord>> read(Instant now, std::size_t max_records);
  /// Notes that the records up to this one were sent. REQUIRES: it is of the last `read`.
  Result<Done> mark_sent(const UnsentRecord& last);

  /// How long a file that was moved is read on for what its writers still append, once it has
  /// nothing more and another has records.
  static constexpr Duration moved_wait = std::chrono::seconds(2);

 private:
  /// A file that has a record.
  struct File {
    OwnedFd fd;
    std::string first;  // the id of its first record
    WallTime written;   // the last time
  };

  static std::optional<File> open_file(const std::string& path);
  std::vector<File> moved_files() const;
  std::optional<File> find(const std::string& first) const;
  std::optional<File> successor_of(const std::string& first) const;
  bool is_intact() const;
  bool continue_file();
  bool leave_moved(Instant now);
  void begin(File file, UsagePosition position);
  Result<std::vector<UnsentRecord>> scan(std::size_t max_records);

  const std::string path_;
  const WallTime since_;
  UsagePositionFile position_file_;
  UsagePosition position_;  // of `file_`, if there is one
  std::string after_;       // without a position: the first record of files that came before
  File file_;               // none until one with a record is found
  Instant moved_since_ = never;
  off_t moved_size_ = 0;
};

/// True if a file of this name may be one that `own` was moved to: it has a number or a date in
/// addition, as usage.jsonl.1 and usage-20261128.jsonl do.
bool is_moved_name(std::string_view name, std::string_view own);

}  // namespace evenkeel
