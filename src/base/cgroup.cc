#include "evenkeel/base/cgroup.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace evenkeel {
namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// True if `word` is one of the words between commas.
bool lists(const std::string& words, std::string_view word) {
  return (',' + words + ',').find(',' + std::string(word) + ',') != std::string::npos;
}

/// The process's path in a hierarchy, without a final slash, from its line of /proc/self/cgroup:
/// "4:cpu,cpuacct:/a/b" in version 1, "0::/a/b" in version 2. Nothing: it has no such line.
std::optional<std::string> path_in_hierarchy(std::string_view controller, bool unified,
                                             const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? !controllers.empty() : !lists(controllers, controller)) continue;
    std::string path = line.substr(second + 1);
    while (path.ends_with('/')) path.pop_back();
    return path;
  }
  return std::nullopt;
}

struct CgroupMount {
  std::string path;   // the folder where it is
  std::string shown;  // which part of the hierarchy is there; empty: all of it
};

/// Undoes the kernel's "\040" for a space.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool escaped = text.size() >= 4 && text[0] == '\\' && text[1] >= '0' && text[1] <= '3';
    out += escaped ? static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0')
                   : text[0];
    text.remove_prefix(escaped ? 4 : 1);
  }
  return out;
}

/// Reads /proc/self/mountinfo; where that lists none, the usual place is taken.
std::vector<CgroupMount> mounts_of(std::string_view controller, bool unified,
                                   const std::string& root) {
  std::vector<CgroupMount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream before(line.substr(0, separator));
    std::istringstream after(line.substr(separator + 3));
    std::array<std::string, 5> place;  // ids, device, the part that is shown, the folder
    for (std::string& word : place) before >> word;
    std::array<std::string, 3> kind;  // type, source, options
    for (std::string& word : kind) after >> word;
    if (kind[0] != (unified ? "cgroup2" : "cgroup")) continue;
    if (!unified && !lists(kind[2], controller)) continue;
    std::string shown = unescaped(place[3]);
    while (shown.ends_with('/')) shown.pop_back();
    mounts.push_back({root + unescaped(place[4]), std::move(shown)});
  }
  if (mounts.empty()) {
    const std::string usual = root + "/sys/fs/cgroup";
    mounts.push_back({unified ? usual : usual + "/" + std::string(controller), ""});
  }
  return mounts;
}

/// The folder and those above it, up to that of the mount.
std::vector<std::string> up_to_mount(std::string folder, const std::string& mount) {
  std::vector<std::string> folders{folder};
  while (folder.size() > mount.size()) {
    folder.resize(folder.rfind('/'));
    folders.push_back(folder);
  }
  return folders;
}

std::optional<Cgroup> find_cgroup(std::string_view controller, bool unified,
                                  const std::string& root) {
  const auto path = path_in_hierarchy(controller, unified, root);
  if (!path) return std::nullopt;
  const auto mounts = mounts_of(controller, unified, root);
  for (const CgroupMount& mount : mounts) {
    const bool shows = *path == mount.shown || path->starts_with(mount.shown + "/");
    if (!shows || path->find("/..") != std::string::npos) continue;
    const std::string folder = mount.path + path->substr(mount.shown.size());
    if (is_folder(folder)) return Cgroup{unified, up_to_mount(folder, mount.path)};
  }
  // The path is the host's, and what is mounted the container's own cgroup.
  const auto own =
      std::ranges::find_if(mounts, [](const CgroupMount& mount) { return is_folder(mount.path); });
  if (own == mounts.end()) return std::nullopt;
  return Cgroup{unified, {own->path}};
}

}  // namespace

std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root) {
  std::vector<Cgroup> found;
  for (const bool unified : {false, true}) {
    if (auto cgroup = find_cgroup(controller, unified, root)) found.push_back(std::move(*cgroup));
  }
  return found;
}

}  // namespace evenkeel
