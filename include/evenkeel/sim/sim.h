// `evenkeel sim`: simulated inference servers as a command.
#pragma once

#include <string>

#include "evenkeel/sim/simulators.h"

namespace evenkeel {

struct SimOptions {
  /// The address of the first server; the others take the following ports, or free ones where the
  /// port is 0.
  std::string listen = "127.0.0.1:8000";
  unsigned count = 1;
  unsigned threads = 1;
  std::string control = "127.0.0.1:0";  ///< for all servers; stays open when they refuse
  SimulatorOptions server;              ///< each of them, but for its name and address
};

/// Serves until SIGINT or SIGTERM. Prints the address of each server on stderr, then `ready`.
/// Returns the exit code: 0; 1: it could not start; 2: an option is invalid.
int run_sim(const SimOptions& options);

}  // namespace evenkeel
