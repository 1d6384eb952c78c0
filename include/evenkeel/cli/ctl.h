// `evenkeel ctl`: queries and changes a running daemon over its admin API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/admin/client.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

enum class CtlVerb { status, backends, requests, explain, drain, undrain, weight, reload, upgrade };

struct CtlOptions {
  CtlVerb verb = CtlVerb::status;
  AdminTarget target;       ///< what is empty: as `config_file` says, else 127.0.0.1:9901
  std::string config_file;  ///< the daemon's, for its admin listener; empty: none
  std::string backend;      ///< for drain, undrain and weight: a backend's id
  std::string pool;         ///< its pool; empty: the only one that has it
  std::string request;      ///< for explain: a request's id
  std::uint32_t weight = 1;
  bool wait = false;  ///< for drain: until nothing is in flight; for reload: as long as it takes
  std::optional<Duration> timeout;  ///< for drain with `wait`; none: no limit
  bool json = false;                ///< print the daemon's JSON document

  bool operator==(const CtlOptions&) const = default;
};

/// Blocks. Exit codes: 0 done, 1 refused, 2 the options make no sense, 3 `timeout` passed with
/// requests in flight, 5 the daemon does not answer.
int run_ctl(const CtlOptions& options);

}  // namespace evenkeel
