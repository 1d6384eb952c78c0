#include "evenkeel/inference/engine.h"

#include <algorithm>

#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

/// In the order of detection: the first engine whose evidence is found is the one. Ray serves other
/// engines and passes their responses on, so it comes before them; SGLang has Ollama's API, too.
constexpr const Engine* table[] = {
    &ray_engine,    &triton_engine,    &mlserver_engine,   &sglang_engine,
    &trtllm_engine, &llamacpp_engine,  &vllm_engine,       &tgi_engine,
    &ollama_engine, &tfserving_engine, &torchserve_engine, &generic_engine,
};

}  // namespace

std::span<const Engine* const> engines() { return table; }

const Engine& engine_named(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Engine::name);
  return found == std::end(table) ? generic_engine : **found;
}

const Engine& kserve_server() { return kserve_engine; }

}  // namespace evenkeel
