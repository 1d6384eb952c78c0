// Runs the daemon.
#pragma once

#include <string>

namespace evenkeel {

struct DaemonOptions {
  std::string config_file;
  std::string version;
};

/// Runs until a signal ends it. Prints `listening name=... address=...` for every bound address,
/// then `ready`, on stderr. Returns the exit code: 0 drained; 1 the file is wrong or the start
/// failed; 3 requests were left at the drain deadline.
int run_daemon(const DaemonOptions& options);

/// Runs as `run_daemon` does, with the text of a configuration in place of its file.
int run_daemon_with(const std::string& config_text, const std::string& version);

}  // namespace evenkeel
