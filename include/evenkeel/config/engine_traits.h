// The engines that a file may name, and what defaults and checks of the file depend on the engine.
#pragma once

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>

namespace evenkeel {

/// All else that is known of an engine stands in its entry in inference/engine.h; a test compares
/// the two.
struct EngineTraits {
  std::string_view name;
  /// How long a health check may take.
  std::chrono::milliseconds health_timeout{1'000};
  /// How long an idle link may be kept: safely below the server's own timeout. vLLM, SGLang,
  /// trtllm-serve and all else that runs on uvicorn close after 5 s, llama.cpp's cpp-httplib too;
  /// Ray's proxy after 90 s. Servers of which nothing is known count as uvicorn.
  std::chrono::milliseconds keep_alive_idle{4'000};
  bool generates_tokens = true;  ///< there is a request that makes any of its models generate
  /// True if the health of such an engine is checked over gRPC in a pool with `protocol: h2`.
  bool checked_over_grpc = false;
  /// A path of metrics that must not be polled: reading consumes its data. Empty: none.
  std::string_view consumed_metrics_path = {};
};

inline constexpr EngineTraits all_engine_traits[] = {
    {.name = "vllm"},
    {.name = "sglang", .health_timeout = std::chrono::seconds(5)},
    {.name = "triton", .checked_over_grpc = true},
    {.name = "trtllm", .consumed_metrics_path = "/metrics"},
    {.name = "tgi"},
    {.name = "llamacpp"},
    {.name = "mlserver", .generates_tokens = false, .checked_over_grpc = true},
    {.name = "torchserve", .health_timeout = std::chrono::seconds(5), .generates_tokens = false},
    {.name = "tfserving", .generates_tokens = false},
    {.name = "ray",
     .health_timeout = std::chrono::seconds(5),
     .keep_alive_idle = std::chrono::seconds(60)},
    {.name = "ollama"},
    {.name = "generic"},
    {.name = "auto", .health_timeout = std::chrono::seconds(5)},
};

/// The traits of this engine, or those of `generic` if the name is no engine's.
constexpr const EngineTraits& engine_traits(std::string_view name) {
  const auto* found = std::ranges::find(all_engine_traits, name, &EngineTraits::name);
  if (found != std::end(all_engine_traits)) return *found;
  return *std::ranges::find(all_engine_traits, "generic", &EngineTraits::name);
}

}  // namespace evenkeel
