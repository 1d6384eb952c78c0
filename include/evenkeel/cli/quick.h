// The balancer from addresses alone.
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
  /// Serves a configuration until it ends; gives the exit code.
  std::function<int(const std::string& config_text)> serve;
};

/// Asks every server what it is, writes the file that this comes to on stdout, what there is to say
/// about it on stderr, and serves that file. Exit codes: those of `run_daemon`; 1 also when no
/// server answers or when they cannot be one pool; 2 an option or a URL that is none.
int run_quick(const QuickOptions& options);

}  // namespace evenkeel
