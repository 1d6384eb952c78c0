// `evenkeel sim`: simulated inference servers as a command.
#pragma once

#include <cstdint>
#include <string>

#include "evenkeel/sim/batching.h"

namespace evenkeel {

struct SimOptions {
  std::string listen = "127.0.0.1:8000";  ///< of the first; the others follow port by port, or get
                                          ///< free ports when the port is 0
  unsigned count = 1;
  std::string engine = "vllm";
  std::string preset = "llama-3-8b-h100";
  std::string model;  ///< empty: the preset's
  double speed = 1;
  std::uint64_t seed = 1;
  unsigned threads = 1;
  std::string control = "127.0.0.1:0";  ///< of all servers; stays when they refuse
  bool prompt_tokens_details = false;
  BatchingSpec batching;
};

/// Serves until SIGINT or SIGTERM. Says on stderr where each server listens, then `ready`. Returns
/// the exit code: 0, 1 when it could not start, 2 when an option makes no sense.
int run_sim(const SimOptions& options);

}  // namespace evenkeel
