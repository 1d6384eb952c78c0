#include "evenkeel/base/memory_usage.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
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

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// The path of the process's cgroup in a line of /proc/self/cgroup, "4:memory:/a/b" (version 1) or
/// "0::/a/b" (version 2); nothing in other lines.
std::optional<std::string> path_in_line(const std::string& line, bool unified) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
  const bool found =
      unified ? controllers == ",," : controllers.find(",memory,") != std::string::npos;
  if (!found) return std::nullopt;
  std::string path = line.substr(second + 1);
  while (path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

MemoryUsage::MemoryUsage(MemoryFiles files) : files_(std::move(files)) {
  for (const bool unified : {false, true}) {  // on a mixed system, version 1 counts memory
    std::ifstream file(files_.proc + "/self/cgroup");
    std::string line;
    while (cgroup_.empty() && std::getline(file, line)) {
      const auto path = path_in_line(line, unified);
      if (!path) continue;
      const std::string root = files_.cgroups + (unified ? "" : "/memory");
      // In a container the path may be the host's, and the root the container's own.
      std::string own = root + *path;
      if (!is_folder(own)) own = root;
      if (!is_folder(own)) continue;
      cgroup_ = std::move(own);
      root_ = root;
      unified_ = unified;
    }
  }
}

std::optional<std::uint64_t> MemoryUsage::cgroup_limit() const {
  if (cgroup_.empty()) return std::nullopt;
  const char* const name = unified_ ? "/memory.max" : "/memory.limit_in_bytes";
  std::uint64_t least = unlimited_v1;
  std::string folder = cgroup_;
  while (true) {
    least = std::min(least, read_number(folder + name).value_or(unlimited_v1));
    if (folder.size() <= root_.size()) break;
    folder.resize(folder.rfind('/'));
  }
  return least < unlimited_v1 ? std::optional(least) : std::nullopt;
}

std::optional<std::uint64_t> MemoryUsage::machine_memory() const {
  const auto kib = read_entry(files_.proc + "/meminfo", "MemTotal:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::uint64_t MemoryUsage::socket_buffers() const {
  if (cgroup_.empty()) return 0;
  if (unified_) return read_entry(cgroup_ + "/memory.stat", "sock ").value_or(0);
  return read_number(cgroup_ + "/memory.kmem.tcp.usage_in_bytes").value_or(0);
}

std::optional<std::uint64_t> MemoryUsage::used() const {
  std::ifstream file(files_.proc + "/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::uint64_t of_files = 0;
  if (!(file >> total >> resident >> of_files)) return std::nullopt;
  static const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return (resident - std::min(resident, of_files)) * page_size + socket_buffers();
}

}  // namespace evenkeel
