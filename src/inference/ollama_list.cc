#include "evenkeel/inference/ollama_list.h"

#include "evenkeel/json/value.h"

namespace evenkeel {

std::optional<std::vector<OllamaEntry>> read_ollama_list(std::string_view text) {
  const auto document = parse_json(text);
  if (!document || !(*document)["models"].is_array()) return std::nullopt;
  std::vector<OllamaEntry> entries;
  for (const JsonValue& entry : (*document)["models"].items()) {
    const std::string& model = entry["model"].text();
    const std::string& name = model.empty() ? entry["name"].text() : model;
    if (!name.empty()) entries.push_back({.model = name, .json = json_text(entry)});
  }
  return entries;
}

}  // namespace evenkeel
