#include "server/preparation_steps.h"

#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "evenkeel/base/memory_reserve.h"
#include "evenkeel/config/changes.h"

namespace evenkeel {

LoadResult reread_config(const std::string& file, const Environment& environment) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(file, unknown)) return load_config(file, environment);
  LoadResult refused;
  refused.problems.push_back(
      {.file = file,
       .message = unknown ? "cannot be read: " + unknown.message() : "is not a file",
       .help = "a reload reads the file that the daemon was started with"});
  return refused;
}

CheckedFile check_file(LoadResult loaded, const Config* active) {
  CheckedFile checked{.problems = std::move(loaded.problems),
                      .problems_text = {},
                      .warnings_text = render_problems(loaded.warnings, loaded.text),
                      .changes = {},
                      .takeover = {},
                      .config = std::make_shared<const Config>(std::move(loaded.config)),
                      .hash = std::move(loaded.hash)};
  if (checked.problems.empty() && active != nullptr) {
    checked.changes = describe_changes(*active, *checked.config);
    checked.takeover = takeover_changes(*active, *checked.config);
  }
  checked.problems_text = render_problems(checked.problems, loaded.text);
  return checked;
}

namespace {

/// The indexes of `expected_time.index_memory` are allocated in full, and may be larger than what
/// the process can get. That refuses the file; the active configuration stays.
Result<std::shared_ptr<const PoolSet>> build_pools(const Config& config, const BuildInputs& inputs,
                                                   const PoolSet* active) {
  const NoWaitForMemory no_wait;
  try {
    return PoolSet::build(config, inputs, active);
  } catch (const std::bad_alloc&) {
    return Error{.fault = Fault::internal,
                 .side = Side::proxy,
                 .detail =
                     "there is not enough memory for these pools: lower "
                     "'expected_time.index_memory', which is taken in full for each pool, "
                     "or raise the memory limit of the process"};
  }
}

}  // namespace

BuiltParts build_parts(const Config& config, const BuildInputs& inputs, const PoolSet* active,
                       const std::vector<std::string>& hosts,
                       const std::optional<std::string>& access_log) {
  BuiltParts parts{.pool_set = build_pools(config, inputs, active),
                   .admin_tls = inputs.reload_files ? load_admin_tls(config.admin) : AdminTls(),
                   .listener_hosts = resolve_listener_hosts(hosts),
                   .access_log = {}};
  if (access_log) parts.access_log.emplace(AccessLogDestination::open(*access_log));
  return parts;
}

}  // namespace evenkeel
