#include "evenkeel/inference/engine.h"

#include <algorithm>
#include <iterator>

#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

/// The engines in the order of detection: the first whose evidence is found counts. Ray passes on
/// the responses of others, so it comes before them; SGLang has Ollama's API, too.
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

std::uint8_t number_of(const Engine& engine) {
  const auto found = std::ranges::find(table, &engine);
  if (&engine == &generic_engine || found == std::end(table)) return 0;
  return static_cast<std::uint8_t>(found - std::begin(table) + 1);
}

const Engine& engine_numbered(std::uint8_t number) {
  return number == 0 || number > std::size(table) ? generic_engine : *table[number - 1];
}

const Engine& kserve_server() { return kserve_engine; }

}  // namespace evenkeel
