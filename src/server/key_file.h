// The file of API keys that a configuration names (`auth.keys.file`): reading it, and noticing that
// it has changed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/tenancy/key_table.h"

namespace evenkeel {

/// The keys of a configuration: its own, and those of its file of keys. A problem of the file as a
/// whole is in line 0. Blocks. Thread: any.
KeyTable::Built read_api_keys(const std::vector<TenantConfig>& tenants, const std::string& file);
KeyTable::Built read_api_keys(const Config& config);

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
