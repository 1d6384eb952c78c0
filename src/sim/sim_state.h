// Faults of a simulated server, as `PUT /sim/v1/state` sets them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// A fault to inject.
enum class SimFault : std::uint8_t {
  none,
  refuse,         ///< refuses new connections; requests in flight end as usual
  hang,           ///< answers nothing and stops streams until the fault is over
  slow,           ///< steps take `slow_factor` times as long
  error,          ///< answers inference with `error_status`; health and metrics as usual
  die,            ///< after `die_after_tokens` more tokens, resets every connection, then refuses
  loading,        ///< as the engine is while it loads: refused (vLLM), 400 (Triton), 503 (others)
  stale_metrics,  ///< repeats the metrics page of the moment when the fault was set
  vram,           ///< GPU memory and KV cache are as full as `gpu_memory_ratio`
  sleep,          ///< is well, but holds all requests until it is woken (vLLM)
};

std::string_view to_string(SimFault fault);

struct SimState {
  SimFault fault = SimFault::none;
  double slow_factor = 4;
  int error_status = 500;
  std::uint64_t die_after_tokens = 0;
  double gpu_memory_ratio = 0.97;          ///< with `vram`; above 0.95, inference fails after:
  double out_of_memory_after_seconds = 3;  ///< with `vram`
};

/// `state` changed by a JSON object with any of its fields. Errors name the field and its range.
Result<SimState> read_state(SimState state, std::string_view json);

/// The fields of `state` as members of a JSON object, without the braces.
std::string state_members(const SimState& state);

}  // namespace evenkeel
