// The daemon: a file, workers, an admin listener, signals.
#pragma once

#include <string>

namespace evenkeel {

struct DaemonOptions {
  std::string config_file;
  std::string version;
};

/// Runs until a signal ends it. Prints `listening name=... address=...` for every bound address and
/// then `ready` on stderr. Exit codes: 0 drained, 1 the file or the start failed, 3 the drain
/// deadline passed with requests left.
int run_daemon(const DaemonOptions& options);

/// As `run_daemon`, with the text of a configuration in place of a file.
int run_daemon_with(const std::string& config_text, const std::string& version);

}  // namespace evenkeel
