#include "evenkeel/inference/ollama_list.h"

#include <string_view>
#include <utility>

#include "inference/json_reader.h"

namespace evenkeel {
namespace {

using simdjson::ondemand::json_type;

/// Empty: it is no entry.
std::string model_of(std::string text) {
  std::string model;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        const std::string key(name);
        const bool names = key == "model" || (key == "name" && model.empty());
        if (names && value.type() == json_type::string) {
          model = json::string_of(value, key);
        } else {
          json::skip_value(value);
        }
      });
  return read ? model : std::string();
}

}  // namespace

std::optional<std::vector<OllamaEntry>> read_ollama_list(std::string text) {
  std::optional<std::vector<OllamaEntry>> entries;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        if (name != "models" || value.type() != json_type::array) {
          json::skip_value(value);
          return;
        }
        entries.emplace();
        for (auto entry : value.get_array()) {
          std::string json(std::string_view(simdjson::to_json_string(entry.value())));
          entries->push_back({.model = {}, .json = std::move(json)});
        }
      });
  if (!read || !entries) return std::nullopt;
  for (OllamaEntry& each : *entries) each.model = model_of(each.json);
  std::erase_if(*entries, [](const OllamaEntry& each) { return each.model.empty(); });
  return entries;
}

}  // namespace evenkeel
