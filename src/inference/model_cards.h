// A list of models of OpenAI's API: {"data": [{"id": ..., "owned_by": ...}]}.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace evenkeel {

struct ModelCard {
  std::string id;
  std::string owner;  ///< empty: unknown
};

/// In the server's order; nothing if the text is not a list of models.
std::optional<std::vector<ModelCard>> read_model_cards(std::string text);

}  // namespace evenkeel
