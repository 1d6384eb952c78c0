#include "evenkeel/base/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "evenkeel/base/cgroup.h"

namespace evenkeel {
namespace {

constexpr int max_cpus = 1 << 16;

unsigned cpus_in_mask() {
  // The kernel refuses a set that is smaller than its own.
  for (int cpus = CPU_SETSIZE; cpus <= max_cpus; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const bool known = sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<unsigned>(std::max(count, 1));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Nothing where there is no such file.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

/// The quota in CPUs; nothing if there is no limit.
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  double time = 0;
  double in = 0;
  if (!(std::istringstream(quota) >> time) || !(std::istringstream(period) >> in))
    return std::nullopt;
  return time > 0 && in > 0 ? std::optional(time / in) : std::nullopt;  // -1 and "max": none
}

std::optional<double> quota_in(const std::string& folder, bool unified) {
  if (!unified) {
    const auto quota = first_line(folder + "/cpu.cfs_quota_us");
    const auto period = first_line(folder + "/cpu.cfs_period_us");
    return quota && period ? ratio(*quota, *period) : std::nullopt;
  }
  const auto line = first_line(folder + "/cpu.max");
  if (!line) return std::nullopt;
  const auto space = std::min(line->find(' '), line->size());
  return ratio(line->substr(0, space), line->substr(space));
}

}  // namespace

unsigned CpuLimit::threads() const {
  if (!quota || *quota >= cpus) return std::max(cpus, 1u);
  return static_cast<unsigned>(std::max(std::ceil(*quota), 1.0));
}

CpuLimit cpu_limit(const std::string& root) {
  CpuLimit limit{.cpus = cpus_in_mask(), .quota = {}};
  for (const Cgroup& cgroup : cgroups_of("cpu", root)) {
    for (const std::string& folder : cgroup.folders) {
      const auto quota = quota_in(folder, cgroup.unified);
      if (quota) limit.quota = std::min(limit.quota.value_or(*quota), *quota);
    }
  }
  return limit;
}

}  // namespace evenkeel
