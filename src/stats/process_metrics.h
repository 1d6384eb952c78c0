// What the kernel says of this process.
#pragma once

#include <optional>

namespace evenkeel {

/// The figures of the standard process_* families. A value that the kernel does not give is missing.
struct ProcessMetrics {
  std::optional<double> cpu_seconds;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
  std::optional<double> virtual_bytes;
  std::optional<double> resident_bytes;
  std::optional<double> start_time_seconds;  ///< since the epoch
};

ProcessMetrics read_process_metrics();

}  // namespace evenkeel
