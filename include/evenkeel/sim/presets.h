// Measured speeds of GPUs with models, by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/sim/engine.h"

namespace evenkeel {

/// A GPU, or several in tensor parallel, with a model on it.
struct Preset {
  std::string name;
  std::string model;  ///< served by default
  std::string gpu;    ///< the driver's name for it
  std::uint32_t gpus = 1;
  std::uint64_t gpu_memory_bytes = 0;  ///< of each
  double idle_watts = 0;               ///< of each
  double full_watts = 0;
  EngineSpec engine;
};

/// Every preset. Step times and KV capacities of the llama-3 ones come from the kernel profiles of
/// Vidur (Agrawal et al., MLSys 2024) and from memory bandwidths; those of the H100 are scaled from
/// the A100, not measured. `reference` and `reference-large-kv` are the server of the routing
/// simulations that the scheduler was designed with (an 8B model on an H100, blocks of 512 tokens).
const std::vector<Preset>& presets();

/// Null if there is no preset of that name.
const Preset* find_preset(std::string_view name);

/// The name of each, in the order of `presets`.
std::vector<std::string> preset_names();

}  // namespace evenkeel
