#include "evenkeel/inference/engine.h"

#include <algorithm>
#include <iterator>

#include "inference/engines/engines.h"

namespace evenkeel {

std::span<const Engine* const> engines() { return engine_table; }

const Engine& engine_named(std::string_view name) {
  const auto found = std::ranges::find(engine_table, name, &Engine::name);
  return found == std::end(engine_table) ? generic_engine : **found;
}

const Engine& engine_of_server(std::string_view name, bool is_kserve) {
  const Engine& engine = engine_named(name);
  return is_kserve && &engine == &generic_engine ? kserve_engine : engine;
}

std::uint8_t number_of(const Engine& engine) {
  const auto found = std::ranges::find(engine_table, &engine);
  if (&engine == &generic_engine || found == std::end(engine_table)) return 0;
  return static_cast<std::uint8_t>(found - std::begin(engine_table) + 1);
}

const Engine& engine_numbered(std::uint8_t number) {
  const bool is_known = number != 0 && number <= std::size(engine_table);
  return is_known ? *engine_table[number - 1] : generic_engine;
}

std::string_view without_implied_tag(std::string_view model) {
  for (const Engine* engine : engine_table) {
    const std::string_view tag = engine->health.implied_model_tag;
    if (!tag.empty() && model.ends_with(tag)) return model.substr(0, model.size() - tag.size());
  }
  return model;
}

}  // namespace evenkeel
