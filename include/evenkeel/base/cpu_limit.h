// How much of the machine's processors this process may use.
#pragma once

#include <optional>
#include <string>

namespace evenkeel {

/// The CPU time that the kernel gives to this process.
struct CpuLimit {
  unsigned cpus = 1;            ///< in its affinity mask
  std::optional<double> quota;  ///< CPUs' worth of time: the least of its cgroup and those above it

  /// How many threads can run at a time: at least one. A quota of 1.5 is used up by two.
  unsigned threads() const;
  /// True if so many threads would use the quota up before its period ends: then one that spins
  /// takes time from the others.
  bool is_below(unsigned threads) const { return quota && *quota < threads; }
};

/// Reads the kernel's files below `root`, which is elsewhere than "" in tests.
CpuLimit cpu_limit(const std::string& root = "");

}  // namespace evenkeel
