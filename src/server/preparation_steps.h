// What the preparation thread does for a change: everything that blocks or takes long.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/admin/admin_tls.h"
#include "evenkeel/base/file_watch.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/load.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/tenancy/key_table.h"
#include "evenkeel/upstream/pool_set.h"
#include "server/key_file.h"
#include "server/listener_set.h"

namespace evenkeel {

/// Stands for the name of a file where the configuration did not come from one.
inline constexpr std::string_view no_config_file = "<generated>";

/// Reads only a regular file: reading a pipe or a device could block for ever. Thread: any.
LoadResult reread_config(const std::string& file, const Environment& environment);

/// A file that has been read and checked.
struct CheckedFile {
  std::string name;
  std::vector<Problem> problems;  ///< why it is rejected; empty: accepted
  std::vector<Problem> warnings;
  std::vector<std::string> changes;   ///< compared with the active one
  std::vector<std::string> takeover;  ///< keys for which another process has to take over
  std::shared_ptr<const Config> config;
  std::shared_ptr<const VariablesUsed> variables;
  std::string hash;
  std::string text;
  Places places;

  /// Adds a problem that shows only after the file was read. Hides the values of variables, and
  /// finds its place in the file.
  void refuse(Problem problem);
};

/// A configuration that runs.
struct ActiveFile {
  std::shared_ptr<const Config> config;            ///< null: none yet
  std::shared_ptr<const VariablesUsed> variables;  ///< likewise
};

/// Checks too that what a reload would allocate fits beside what the process has. `active`: what
/// runs. `environment`: tells the memory limit. Thread: any.
CheckedFile check_file(LoadResult loaded, const std::string& file, const ActiveFile& active,
                       const Environment& environment);

/// The environment, but only files that the active configuration names in the same place are looked
/// at; `unchecked` gets the others.
Environment without_other_files(Environment environment, std::shared_ptr<const Config> active,
                                std::shared_ptr<std::vector<std::string>> unchecked);

/// What the preparation thread builds from a configuration.
struct BuiltParts {
  Result<std::shared_ptr<const PoolSet>> pool_set;
  Result<AdminTls> admin_tls;
  ListenerHosts listener_hosts;
  std::optional<Result<AccessLogDestination>> access_log;
  std::optional<Result<AccessLogDestination>> usage_log;
  KeyTable::Built keys = {};  ///< empty: they were not read
  std::optional<FileVersion> key_file = {};
};

/// Where logs are to be written from now on; empty: they stay.
struct LogPaths {
  std::optional<std::string> access_log;
  std::optional<std::string> usage;
};

/// Reads certificates and keys, resolves names. `hosts`: of listeners. Thread: any.
BuiltParts build_parts(const Config& config, const BuildInputs& inputs, const PoolSet* active,
                       const std::vector<std::string>& hosts, const LogPaths& logs);

}  // namespace evenkeel
