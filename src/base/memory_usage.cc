#include "evenkeel/base/memory_usage.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace evenkeel {
namespace {

/// "No limit" in cgroup v1: the largest multiple of the page size. No machine has half of it.
constexpr std::uint64_t unlimited_v1 = std::uint64_t{1} << 62;

/// The number at the beginning of a file; nothing if there is none ("max").
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// The number after a name at the beginning of a line, such as "sock 4096" or "MemTotal: 1 kB".
std::optional<std::uint64_t> read_entry(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::uint64_t number = 0;
    if (rest >> number) return number;
  }
  return std::nullopt;
}

}  // namespace

MemoryUsage::MemoryUsage(std::string root)
    : root_(std::move(root)), cgroups_(cgroups_of("memory", root_)) {}

std::optional<std::uint64_t> MemoryUsage::cgroup_limit() const {
  std::uint64_t least = unlimited_v1;
  for (const Cgroup& cgroup : cgroups_) {
    const char* const name = cgroup.unified ? "/memory.max" : "/memory.limit_in_bytes";
    for (const std::string& folder : cgroup.folders)
      least = std::min(least, read_number(folder + name).value_or(unlimited_v1));
  }
  return least < unlimited_v1 ? std::optional(least) : std::nullopt;
}

std::optional<std::uint64_t> MemoryUsage::machine_memory() const {
  const auto kib = read_entry(root_ + "/proc/meminfo", "MemTotal:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::uint64_t MemoryUsage::socket_buffers() const {
  if (cgroups_.empty()) return 0;
  const std::string& own = cgroups_.front().folders.front();
  if (cgroups_.front().unified) return read_entry(own + "/memory.stat", "sock ").value_or(0);
  return read_number(own + "/memory.kmem.tcp.usage_in_bytes").value_or(0);
}

std::optional<std::uint64_t> MemoryUsage::used() const {
  std::ifstream file(root_ + "/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::uint64_t of_files = 0;
  if (!(file >> total >> resident >> of_files)) return std::nullopt;
  static const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return (resident - std::min(resident, of_files)) * page_size + socket_buffers();
}

}  // namespace evenkeel
