#include "cli/admin_target.h"

#include <utility>

#include "cli/exit_codes.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

AdminTarget completed(AdminTarget given, const Config& config) {
  if (given.address.empty()) {
    given.address = (config.admin.tls ? "https://" : "") + to_string(config.admin.address);
  }
  if (given.token_file.empty()) given.token_file = config.admin.token_file;
  return given;
}

std::variant<AdminTarget, CommandOutput> find_target(AdminTarget given,
                                                     const std::string& config_file) {
  if (config_file.empty()) return completed(std::move(given), Config{});
  // Other files, host names and certificates are not checked: they are for the daemon to read.
  Environment environment;
  environment.variable = Environment::from_process().variable;
  const LoadResult loaded = load_config(config_file, environment);
  if (!loaded.ok()) {
    return CommandOutput{exit_failed, {}, render_problems(loaded.problems, loaded.text)};
  }
  return completed(std::move(given), loaded.config);
}

}  // namespace evenkeel
