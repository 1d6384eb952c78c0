#include "cli/admin_target.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "evenkeel/base/exit_codes.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

namespace {

/// True if the file's own `admin` section can be relied on although the file has mistakes. After
/// one in the syntax it may be incomplete, and a long list ends with the number of those that it
/// leaves out: both have no path.
bool admin_section_is_right(const std::vector<Problem>& problems) {
  return std::ranges::none_of(problems, [](const Problem& problem) {
    return problem.path.empty() || problem.path.starts_with("admin");
  });
}

}  // namespace

AdminTarget completed(AdminTarget given, const Config& config) {
  const bool has_scheme = given.address.find("://") != std::string::npos;
  if (given.address.empty()) given.address = to_string(config.admin.address);
  if (config.admin.tls && !has_scheme) given.address = "https://" + given.address;
  given.either_scheme = !has_scheme;
  if (given.token_file.empty()) given.token_file = config.admin.token_file;
  return given;
}

std::variant<FoundTarget, CommandOutput> find_target(AdminTarget given,
                                                     const std::string& config_file) {
  if (config_file.empty()) {
    AdminTarget target = completed(std::move(given), Config{});
    target.either_scheme = false;
    return FoundTarget{std::move(target), {}};
  }
  // Other files, host names and certificates are not checked: they are for the daemon to read.
  Environment environment;
  environment.variable = Environment::from_process().variable;
  const LoadResult loaded = load_config(config_file, environment);
  // A reload of a file with mistakes reaches the daemon, which records that it has refused it.
  std::string problems = render_problems(loaded.problems, loaded.text);
  const bool unreadable = loaded.hash.empty();
  if (unreadable) return CommandOutput{exit_failed, {}, std::move(problems)};
  const bool certain = !given.address.empty() || admin_section_is_right(loaded.problems);
  return FoundTarget{completed(std::move(given), loaded.config),
                     certain ? std::string() : std::move(problems)};
}

}  // namespace evenkeel
