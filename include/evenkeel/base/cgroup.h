// The control groups of this process, and the folders in which the kernel shows their limits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// The process's cgroup in one hierarchy, with those above it, as far as they are mounted here.
struct Cgroup {
  bool unified = false;              ///< of version 2, which has one hierarchy for all controllers
  std::vector<std::string> folders;  ///< the process's own first; never empty
};

/// The cgroups that may limit what a controller ("cpu", "memory") counts: the one of version 1 and
/// the one of version 2, as far as there are any. The mounts tell where they are: in a container
/// the kernel may name the path on the host, of which only the container's own part is mounted.
/// `root`: the folder of the kernel's files; elsewhere than "" in tests.
std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root = "");

}  // namespace evenkeel
