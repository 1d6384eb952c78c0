// The entries of the table of engines, one file each.
#pragma once

#include "evenkeel/inference/engine.h"

namespace evenkeel {

/// The start of the process that renders the page, by Prometheus' clients for Python, Go and Rust.
inline constexpr std::string_view process_start_time = "process_start_time_seconds";

extern const Engine generic_engine;
extern const Engine kserve_engine;  // no engine of the file

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

}  // namespace evenkeel
