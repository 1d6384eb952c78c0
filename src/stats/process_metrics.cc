#include "process_metrics.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "evenkeel/base/descriptor_limit.h"

namespace evenkeel {
namespace {

double seconds_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::optional<double> count_fds() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  int entries = 0;
  while (const dirent* entry = readdir(folder)) entries += entry->d_name[0] != '.';
  closedir(folder);
  return entries - 1;  // without the descriptor of this directory
}

std::optional<double> fd_limit() {
  const auto limit = descriptor_limit();
  if (!limit) return std::nullopt;
  return static_cast<double>(*limit);
}

/// The fields of proc(5)'s stat after the command, which may contain spaces and brackets.
std::istringstream stat_after_command() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto bracket = line.rfind(')');
  return std::istringstream(bracket == std::string::npos ? "" : line.substr(bracket + 1));
}

/// Read once: a start time that changes with the wall clock would look like restarts.
double start_time(double start_ticks) {
  static const double time = seconds_on(CLOCK_REALTIME) - seconds_on(CLOCK_BOOTTIME) +
                             start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return time;
}

}  // namespace

ProcessMetrics read_process_metrics() {
  ProcessMetrics reading{.cpu_seconds = seconds_on(CLOCK_PROCESS_CPUTIME_ID),
                         .open_fds = count_fds(),
                         .max_fds = fd_limit()};
  std::istringstream stat = stat_after_command();
  std::string skipped;
  for (int field = 3; field < 22; ++field) stat >> skipped;
  double start_ticks = 0;
  double virtual_bytes = 0;
  double resident_pages = 0;
  if (stat >> start_ticks >> virtual_bytes >> resident_pages) {
    reading.virtual_bytes = virtual_bytes;
    reading.resident_bytes = resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
    reading.start_time_seconds = start_time(start_ticks);
  }
  return reading;
}

}  // namespace evenkeel
