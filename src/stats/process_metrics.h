// The figures that the kernel has of this process.
#pragma once

#include <optional>

namespace evenkeel {

/// The values of the standard process_* families; empty where the kernel gives none.
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
