// `evenkeel sim`: simulated inference servers as a command.
#pragma once

#include <cstdint>
#include <string>

#include "evenkeel/sim/adapters.h"
#include "evenkeel/sim/batching.h"
#include "evenkeel/sim/stream_head.h"

namespace evenkeel {

struct SimOptions {
  /// The address of the first server; the others take the following ports, or free ones where the
  /// port is 0.
  std::string listen = "127.0.0.1:8000";
  unsigned count = 1;
  std::string engine = "vllm";
  std::string preset = "llama-3-8b-h100";
  std::string model;  ///< empty: the preset's
  double speed = 1;
  std::uint64_t seed = 1;
  unsigned threads = 1;
  std::string control = "127.0.0.1:0";  ///< for all servers; stays open when they refuse
  bool prompt_tokens_details = false;
  StreamHead stream_head = StreamHead::as_engine;
  BatchingSpec batching;
  AdaptersSpec adapters;  ///< with engine `vllm`
};

/// Serves until SIGINT or SIGTERM. Prints the address of each server on stderr, then `ready`.
/// Returns the exit code: 0; 1: it could not start; 2: an option is invalid.
int run_sim(const SimOptions& options);

}  // namespace evenkeel
