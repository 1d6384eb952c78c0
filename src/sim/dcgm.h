// The GPUs of a simulated server: what dcgm-exporter and Triton report about them.
#pragma once

#include <cstdint>
#include <string>

#include "sim/engine_api.h"

namespace evenkeel {

std::string gpu_uuid(std::uint64_t seed, std::uint32_t index);
/// The readings of each GPU: memory in use, power draw, energy since the start.
double gpu_used_bytes(const EngineSnapshot& snapshot);
double gpu_watts(const EngineSnapshot& snapshot);
double gpu_joules(const EngineSnapshot& snapshot);

/// dcgm-exporter's metrics page.
std::string render_dcgm(const EngineSnapshot& snapshot);

}  // namespace evenkeel
