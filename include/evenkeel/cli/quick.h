// `evenkeel quick`: serves the given servers, without a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace evenkeel {

struct QuickOptions {
  std::vector<std::string> urls;  ///< http://host[:port], or host:port
  std::string listen = "0.0.0.0:8080";
  std::string admin = "127.0.0.1:9901";
  std::string picker = "least-connections";
  /// Serves a configuration until the process is told to end; returns the exit code.
  std::function<int(const std::string& config_text)> serve;
};

/// Detects every server's engine and models, writes a configuration on stdout and notes about it on
/// stderr, and serves that configuration. Exit codes: those of `run_daemon`; 1 also if no server
/// answers or the servers cannot form one pool; 2 an option or a URL is invalid.
int run_quick(const QuickOptions& options);

}  // namespace evenkeel
