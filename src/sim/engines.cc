// The table of simulated engines.
#include <algorithm>

#include "evenkeel/sim/simulators.h"
#include "sim/engine_api.h"

namespace evenkeel {

std::span<const SimulatedEngine* const> simulated_engines() {
  static constexpr const SimulatedEngine* engines[] = {
      &simulated_vllm, &simulated_sglang,   &simulated_triton,
      &simulated_tgi,  &simulated_llamacpp, &simulated_generic,
  };
  return engines;
}

const SimulatedEngine* find_simulated_engine(std::string_view name) {
  const auto engines = simulated_engines();
  const auto found = std::ranges::find(engines, name, &SimulatedEngine::name);
  return found == engines.end() ? nullptr : *found;
}

std::vector<std::string> simulated_engine_names() {
  std::vector<std::string> names;
  for (const SimulatedEngine* engine : simulated_engines()) names.emplace_back(engine->name);
  return names;
}

}  // namespace evenkeel
