// The LoRA adapters of a simulated server, as vLLM's options name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel {

struct AdaptersSpec {
  std::vector<std::string> names;  ///< `lora-modules`, in the order in which they are loaded
  std::uint32_t slots = 1;         ///< `max-loras`
  double load_seconds = 0.5;       ///< of one that is not loaded
};

}  // namespace evenkeel
