// `evenkeel ctl`: queries and changes a running daemon over its admin API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/admin/client.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

enum class CtlVerb {
  status,
  backends,
  requests,
  sessions,
  tenants,
  canaries,
  explain,
  drain,
  undrain,
  weight,
  reload,
  upgrade,
  purge,
  log
};

/// Which of the last requests to show.
struct RequestFilter {
  bool slowest_first = false;
  Duration min_duration{};  ///< that they took
  bool errors = false;      ///< only those that failed: a fault, or a status of 400 or more
  std::string tenant;       ///< empty: any
  std::string model;        ///< empty: any
  std::string pool;         ///< empty: any
  std::string backend;      ///< the one of the last attempt; empty: any

  bool operator==(const RequestFilter&) const = default;
  /// True if all requests pass.
  bool empty() const {
    return !errors && min_duration == Duration{} && tenant.empty() && model.empty() &&
           pool.empty() && backend.empty();
  }
};

/// A level of the log, as the daemon names it.
struct LogLevelOption {
  std::string subsystem;  ///< empty: all
  std::string level;

  bool operator==(const LogLevelOption&) const = default;
};

struct CtlOptions {
  CtlVerb verb = CtlVerb::status;
  AdminTarget target;       ///< what is empty: as `config_file` says, else 127.0.0.1:9901
  std::string config_file;  ///< the daemon's, for its admin listener; empty: none
  /// The ids to drain, undrain or weight; empty: all backends of `pool`.
  std::vector<std::string> backends;
  std::string pool;  ///< theirs, empty: the only one that has each; for sessions: empty: all
  std::uint32_t sessions = 20;         ///< for sessions: how many of each pool to show
  std::string request;                 ///< for explain: a request's id
  std::string restart;                 ///< for canaries: the route; empty: show them
  std::vector<LogLevelOption> levels;  ///< for log; empty: show them
  std::uint32_t weight = 1;
  bool wait = false;  ///< for drain: until nothing is in flight; for reload: as long as it takes
  std::optional<Duration> timeout;    ///< for drain with `wait`; none: no limit
  std::optional<Duration> drain_for;  ///< for drain: how long it lasts; none: until `undrain`
  RequestFilter requests;             ///< for requests
  bool json = false;                  ///< print the daemon's JSON document

  bool operator==(const CtlOptions&) const = default;
};

/// Runs `evenkeel ctl`. Blocks. Exit codes: 0 done, 1 refused, 2 the options make no sense, 3
/// `timeout` passed with requests in flight, 5 the daemon does not answer.
int run_ctl(const CtlOptions& options);

}  // namespace evenkeel
