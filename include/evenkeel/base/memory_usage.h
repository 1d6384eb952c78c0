// How much memory the process uses, and how much it may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/cgroup.h"

namespace evenkeel {

/// Reads the memory of this process from the kernel's files. Nothing where a file is missing.
///
/// Thread: any, one at a time.
class MemoryUsage {
 public:
  /// `root`: the folder of the kernel's files; elsewhere than "" in tests.
  explicit MemoryUsage(std::string root = "");

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

  std::string root_;
  std::vector<Cgroup> cgroups_;  // on a mixed system the first one, of version 1, counts memory
};

}  // namespace evenkeel
