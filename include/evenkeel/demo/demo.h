// The whole thing in one command: simulated GPUs, the balancer, a load, and a table to watch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

struct DemoOptions {
  std::string scenario = "fleet";
  unsigned seconds = 0;  ///< ends by itself after so long; 0: by an interrupt only
  unsigned backends = 4;
  std::string picker = "least-connections";
  double rate = 0;  ///< requests per second; 0: what suits so many backends
  std::uint64_t seed = 1;
};

/// The words of `DemoOptions::scenario`.
inline constexpr std::string_view scenario_words[] = {"fleet", "blast"};

/// `fleet` starts simulators of unequal speed in this process and the balancer in one of its own,
/// sends streams through it, and prints a table once a second (on a terminal; else a line).
/// Everything on free ports of the loopback interface; nothing is left behind, on disk or running,
/// whatever ends it. 0: no request failed. 1: some did, or something could not start. 2: an option
/// makes no sense.
int run_demo(const DemoOptions& options);

}  // namespace evenkeel
