// `evenkeel top`: what a daemon and its backends are doing, as a table that refreshes.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/admin/client.h"

namespace evenkeel {

struct TopOptions {
  AdminTarget target;       ///< what is empty: as `config_file` says, else 127.0.0.1:9901
  std::string config_file;  ///< the daemon's, for its admin listener; empty: none
  bool once = false;
  bool json = false;           ///< each snapshot as one line of JSON
  std::string sort = "state";  ///< one of top_orders()

  bool operator==(const TopOptions&) const = default;
};

/// The orders of backends that TopOptions::sort takes.
std::vector<std::string> top_orders();

/// Refreshes once a second: on a terminal until `q` or a signal, otherwise line by line until a
/// signal. Exit codes: 0 done, 2 the options make no sense, 5 the daemon does not answer.
int run_top(const TopOptions& options);

}  // namespace evenkeel
