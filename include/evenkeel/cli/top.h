// `evenkeel top`: what a daemon and its backends are doing, as a table that keeps up.
#pragma once

#include <string>

namespace evenkeel {

struct TopOptions {
  std::string admin = "127.0.0.1:9901";
  bool once = false;
  bool json = false;  ///< a document per look, in a line
};

/// On a terminal: redrawn every second until `q` or a signal. Elsewhere: printed every second until
/// a signal. Exit codes: 0, 5 the daemon cannot be reached.
int run_top(const TopOptions& options);

}  // namespace evenkeel
