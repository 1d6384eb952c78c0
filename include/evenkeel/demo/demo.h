// Simulated GPUs, the balancer, a load and a table of what happens, in one command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

struct DemoOptions {
  std::string scenario = "fleet";
  unsigned seconds = 0;  ///< ends after this long; 0: runs until a signal
  unsigned backends = 4;
  std::string picker = "least-connections";
  double rate = 0;  ///< requests per second; 0: 12 per backend
  std::uint64_t seed = 1;
};

/// Values of `DemoOptions::scenario`.
inline constexpr std::string_view scenario_words[] = {"fleet", "blast"};

/// `fleet` starts simulators of unequal speed in this process and the balancer in a child process,
/// sends streams through it, and prints a table (without a terminal: a line) once a second. `blast`
/// multiplies the traffic by eight and shows standby backends join and leave. Everything listens on
/// free ports of the loopback interface; nothing stays on disk or keeps running. Returns 0: no
/// request failed; 1: some failed, or something could not start; 2: an option is invalid.
int run_demo(const DemoOptions& options);

}  // namespace evenkeel
