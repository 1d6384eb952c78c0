// How much memory the process uses, and how much it may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace evenkeel {

/// Where the kernel's files are; elsewhere in tests.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

/// Reads the memory of this process from the kernel's files. Nothing where a file is missing.
///
/// Thread: any, one at a time.
class MemoryUsage {
 public:
  explicit MemoryUsage(MemoryFiles files = {});

  /// The limit of the process's cgroup, or the smallest of those above it, in bytes. Nothing: it
  /// has none.
  std::optional<std::uint64_t> cgroup_limit() const;
  /// The memory of the machine, in bytes.
  std::optional<std::uint64_t> machine_memory() const;
  /// What the process holds, in bytes: its own pages, without those of files, and the buffers of
  /// the sockets in its cgroup, which the kernel counts towards the limit too.
  std::optional<std::uint64_t> used() const;

 private:
  std::uint64_t socket_buffers() const;

  MemoryFiles files_;
  std::string cgroup_;   // the folder of the process's cgroup; empty: none that counts memory
  std::string root_;     // the folder above which there are no cgroups
  bool unified_ = true;  // cgroup v2
};

}  // namespace evenkeel
