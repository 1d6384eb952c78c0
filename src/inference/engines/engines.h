// The table of engines. Each has a file of its own here.
#pragma once

#include "evenkeel/inference/engine.h"

namespace evenkeel {

/// The start of the process that renders the page, by Prometheus' clients for Python, Go and Rust.
inline constexpr std::string_view process_start_time = "process_start_time_seconds";

/// The health of a server that implements KServe v2, and says no more.
inline constexpr EngineHealth kserve_health{.path = "/v2/health/ready",
                                            .listing = ModelListing::kserve,
                                            .token = TokenProbe::none,
                                            .not_ready_status = 400,
                                            .path_covers_all_models = true,
                                            .serves_kserve_grpc = true};

extern const Engine llamacpp_engine;
extern const Engine mlserver_engine;
extern const Engine ollama_engine;
extern const Engine ray_engine;
extern const Engine sglang_engine;
extern const Engine tfserving_engine;
extern const Engine tgi_engine;
extern const Engine torchserve_engine;
extern const Engine triton_engine;
extern const Engine trtllm_engine;
extern const Engine vllm_engine;
extern const Engine kserve_engine;  // not in the table: any server that implements KServe v2

/// The engines in the order of detection: the first whose evidence is found counts. Ray passes on
/// the responses of others, so it comes before them; SGLang has Ollama's API, too. The reference of
/// the file lists them in this order.
inline constexpr const Engine* engine_table[] = {
    &ray_engine,        &vllm_engine,      &sglang_engine,   &triton_engine,
    &trtllm_engine,     &tgi_engine,       &llamacpp_engine, &mlserver_engine,
    &torchserve_engine, &tfserving_engine, &ollama_engine,   &generic_engine,
};

}  // namespace evenkeel
