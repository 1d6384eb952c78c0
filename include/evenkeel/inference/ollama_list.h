// Ollama's lists of models: {"models": [{"name": ..., "model": ..., "digest": ...}]}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// An entry of /api/tags or /api/ps.
struct OllamaEntry {
  std::string model;
  std::string json;  ///< the whole object
};

/// Returns the entries in the server's order, without those that name no model; nothing if the text
/// is not a list.
std::optional<std::vector<OllamaEntry>> read_ollama_list(std::string_view text);

}  // namespace evenkeel
