// How each kind of engine words the same facts: names, health, errors, metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/sim/presets.h"
#include "sim/server_statistics.h"

namespace evenkeel {

std::optional<EngineKind> parse_engine_kind(std::string_view name);
std::string_view to_string(EngineKind kind);
/// "vllm, sglang, ..."
std::string engine_kind_list();

/// Who owns a model in that engine's list of models.
std::string_view model_owner(EngineKind kind, std::string_view model);

/// What went wrong with a request, as an engine sees it.
struct ApiError {
  int status = 400;
  std::string message;
  std::string_view param = {};  ///< empty: null
};

/// The body of an error: OpenAI's object (vLLM, generic, Triton's OpenAI paths), a flat one
/// (SGLang), `error` and `error_type` (TGI), llama.cpp's words.
std::string error_body(EngineKind kind, const ApiError& error);
/// Triton's own paths: {"error": "..."}.
std::string kserve_error_body(std::string_view message);

/// What does not only count up.
struct Gauges {
  std::size_t running = 0;
  std::size_t waiting = 0;
  double kv_cache_ratio = 0;
  std::uint64_t context_tokens = 0;   ///< of running requests
  std::uint64_t reserved_tokens = 0;  ///< that running requests may come to
  double generated_per_second = 0;
};

struct GpuSnapshot {
  double utilization_ratio = 0;
  double uptime_seconds = 0;
  double busy_seconds = 0;
  double memory_ratio = 0.92;  ///< gpu_memory_utilization: taken at the start, kept
};

/// All that an exposition is made of.
struct EngineSnapshot {
  EngineKind kind = EngineKind::vllm;
  const Preset& preset;
  std::string_view model;
  std::uint64_t gpu_seed = 0;  ///< names the GPUs
  double started_unix = 0;
  Gauges gauges;
  const ServerStatistics& statistics;
  GpuSnapshot gpu;
};

/// Prometheus text 0.0.4, as the engine's `/metrics` has it: real names, labels and buckets.
std::string exposition(const EngineSnapshot& snapshot);
/// What dcgm-exporter says of the GPUs of that server.
std::string dcgm_exposition(const EngineSnapshot& snapshot);

}  // namespace evenkeel
