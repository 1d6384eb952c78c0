#include "server/preparation_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "evenkeel/base/memory_usage.h"
#include "evenkeel/config/changes.h"
#include "evenkeel/stats/usage_position.h"

namespace evenkeel {

LoadResult reread_config(const std::string& file, const Environment& environment) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(file, unknown)) return load_config(file, environment);
  LoadResult refused;
  if (file == no_config_file) {
    refused.problems.push_back(
        {.file = file,
         .message = "there is no file to reload: `evenkeel quick` has started this daemon",
         .help = "save what it printed, and start `evenkeel run -c FILE`"});
    return refused;
  }
  refused.problems.push_back(
      {.file = file,
       .message = unknown ? "cannot be read: " + unknown.message() : "is not a file",
       .help = "a reload reads the file that the daemon was started with"});
  return refused;
}

namespace {

/// Why the tables of the next configuration do not fit; nothing: they do. They are allocated while
/// the active ones are in use, or in another process while this one drains.
std::optional<Problem> memory_problem(const Config& active, const Config& next, bool takeover,
                                      const Environment& environment) {
  const std::uint64_t added = added_table_bytes(takeover ? nullptr : &active, next);
  if (added == 0 || !environment.memory_limit) return std::nullopt;
  const MemoryLimit& setting = active.limits.memory;
  auto limit = environment.memory_limit({.kind = MemoryLimit::Kind::share, .share = 1});
  if (setting.kind != MemoryLimit::Kind::off) {
    const auto own = setting.kind == MemoryLimit::Kind::bytes ? setting.bytes
                                                              : environment.memory_limit(setting);
    if (own) limit = std::min(limit.value_or(*own), *own);
  }
  const std::uint64_t used =
      std::max(MemoryUsage().used().value_or(0), added_table_bytes(nullptr, active));
  if (!limit || used + added <= *limit) return std::nullopt;
  constexpr std::uint64_t mib = 1024 * 1024;
  return Problem{
      .path = "pools",
      .message = fmt::format("there is not enough memory for these pools: their tables take {} MiB "
                             "beside {} MiB in use, and the limit of the process is {} MiB "
                             "(`limits.memory` that runs)",
                             added / mib, used / mib, *limit / mib),
      .help =
          "lower `picker.index_memory` and `affinity.max_sessions`, which are taken in "
          "full for each pool, raise that limit by a reload of its own, or restart"};
}

/// True if a file is named for this use.
bool names_file(const Config& config, FileUse use, const std::string& path) {
  switch (use) {
    case FileUse::admin_token: return config.admin.token_file == path;
    case FileUse::access_log:
    case FileUse::syslog: return config.access_log.path == path;
    case FileUse::usage: return config.usage.path == path;
    case FileUse::audit: return config.audit.path == path;
    case FileUse::audit_key: return config.audit.key_file == path;
    case FileUse::state:
      return config.state_file == path || usage_position_path(config.usage.path) == path;
    case FileUse::key_set:
      return config.auth && std::ranges::find(config.auth->jwt, path, &TokenIssuerConfig::jwks) !=
                                config.auth->jwt.end();
    case FileUse::backend_list:
      return std::ranges::any_of(config.pools, [&](const PoolConfig& pool) {
        return pool.discover && pool.discover->file == path;
      });
    case FileUse::authorities:
      if (config.kubernetes.ca == path) return true;
      if (config.usage.http && config.usage.http->ca == path) return true;
      return config.auth && std::ranges::find(config.auth->jwt, path, &TokenIssuerConfig::ca) !=
                                config.auth->jwt.end();
    case FileUse::error_page:
      return std::ranges::any_of(config.routes, [&](const RouteConfig& route) {
        return std::ranges::find(route.error_pages, path, &ErrorPageConfig::file) !=
               route.error_pages.end();
      });
    case FileUse::api_key:
      if (config.kubernetes.token_file == path) return true;
      if (config.usage.http && config.usage.http->token_file == path) return true;
      break;
  }
  if (config.shared_state && config.shared_state->password_file == path) return true;
  return std::ranges::any_of(config.pools, [&](const PoolConfig& pool) {
    return std::ranges::find(pool.backends, path, &BackendConfig::api_key_file) !=
           pool.backends.end();
  });
}

void add_files(std::vector<std::string>& files, const std::vector<std::string>& more) {
  for (const std::string& file : more) {
    if (!file.empty()) files.push_back(file);
  }
}

std::vector<std::string> files_of(const ListenerTlsConfig& tls) {
  std::vector<std::string> files{tls.client_ca, tls.client_crl};
  for (const auto& each : tls.certificates) {
    files.push_back(each.cert);
    files.push_back(each.key);
  }
  return files;
}

}  // namespace

void CheckedFile::refuse(Problem problem) {
  problem.file = name;
  problem.message = variables->hide(std::move(problem.message));
  places.locate(problem);
  problems.push_back(std::move(problem));
}

CheckedFile check_file(LoadResult loaded, const std::string& file, const ActiveFile& active,
                       const Environment& environment) {
  CheckedFile checked{
      .name = file,
      .problems = std::move(loaded.problems),
      .warnings = std::move(loaded.warnings),
      .changes = {},
      .takeover = {},
      .config = std::make_shared<const Config>(std::move(loaded.config)),
      .variables = std::make_shared<const VariablesUsed>(std::move(loaded.variables)),
      .hash = std::move(loaded.hash),
      .text = std::move(loaded.text),
      .places = std::move(loaded.places)};
  if (!checked.problems.empty() || active.config == nullptr) return checked;
  checked.changes = describe_changes(*active.config, *checked.config);
  for (std::string& change : checked.changes) {
    change = active.variables->hide(checked.variables->hide(std::move(change)));
  }
  checked.takeover = takeover_changes(*active.config, *checked.config);
  auto problem =
      memory_problem(*active.config, *checked.config, !checked.takeover.empty(), environment);
  if (problem) checked.refuse(std::move(*problem));
  return checked;
}

Environment without_other_files(Environment environment, std::shared_ptr<const Config> active,
                                std::shared_ptr<std::vector<std::string>> unchecked) {
  if (environment.file_error) {
    environment.file_error = [active, unchecked, look = std::move(environment.file_error)](
                                 FileUse use,
                                 const std::string& path) -> std::optional<std::string> {
      if (names_file(*active, use, path)) return look(use, path);
      unchecked->push_back(path);
      return std::nullopt;
    };
  }
  if (environment.key_file_problems) {
    environment.key_file_problems =
        [active, unchecked, look = std::move(environment.key_file_problems)](
            const std::string& path,
            const std::vector<TenantConfig>& tenants) -> std::vector<FileProblem> {
      if (active->auth && active->auth->keys.file == path) return look(path, tenants);
      unchecked->push_back(path);
      return {};
    };
  }
  if (environment.listener_tls_problems) {
    environment.listener_tls_problems =
        [active, unchecked, look = std::move(environment.listener_tls_problems)](
            const ListenerTlsConfig& tls) -> std::vector<TlsProblem> {
      const bool same =
          active->admin.tls == tls ||
          std::ranges::any_of(active->listeners, [&](const auto& each) { return each.tls == tls; });
      if (same) return look(tls);
      add_files(*unchecked, files_of(tls));
      return {};
    };
  }
  if (environment.pool_tls_problems) {
    environment.pool_tls_problems = [active, unchecked,
                                     look = std::move(environment.pool_tls_problems)](
                                        const PoolTlsConfig& tls) -> std::vector<TlsProblem> {
      const auto same = [&](const PoolConfig& each) { return each.tls == tls; };
      if (std::ranges::any_of(active->pools, same)) return look(tls);
      add_files(*unchecked, {tls.ca, tls.cert, tls.key});
      return {};
    };
  }
  return environment;
}

BuiltParts build_parts(const Config& config, const BuildInputs& inputs, const PoolSet* active,
                       const std::vector<std::string>& hosts, const LogPaths& logs) {
  BuiltParts parts{.pool_set = PoolSet::build(config, inputs, active),
                   .admin_tls = inputs.reload_files ? load_admin_tls(config.admin) : AdminTls(),
                   .listener_hosts = resolve_listener_hosts(hosts),
                   .access_log = {},
                   .usage_log = {}};
  if (inputs.reload_files) {
    if (config.auth) parts.key_file = version_of(config.auth->keys.file);  // or an older one
    parts.keys = read_api_keys(config);
  }
  if (logs.access_log) parts.access_log.emplace(AccessLogDestination::open(*logs.access_log));
  if (logs.usage)
    parts.usage_log.emplace(AccessLogDestination::open(*logs.usage, LogPurpose::usage));
  return parts;
}

}  // namespace evenkeel
