// `evenkeel ctl`: asks and changes a daemon that runs, over its admin API.
#pragma once

#include <cstdint>
#include <string>

namespace evenkeel {

enum class CtlVerb { status, backends, drain, undrain, weight, reload };

struct CtlOptions {
  CtlVerb verb = CtlVerb::status;
  std::string admin = "127.0.0.1:9901";
  std::string token_file;  ///< empty: none
  std::string backend;     ///< of drain, undrain and weight: an id
  std::string pool;        ///< empty: wherever that id is the only one
  std::uint32_t weight = 1;
  bool wait = false;  ///< of drain: until nothing is in flight; of reload: however long it takes
  bool json = false;  ///< the daemon's own document
};

/// Exit codes: 0 done, 1 refused, 2 the options make no sense, 5 the daemon cannot be reached.
int run_ctl(const CtlOptions& options);

}  // namespace evenkeel
