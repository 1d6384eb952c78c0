// A list of models as OpenAI's API has it: {"data": [{"id": ..., "owned_by": ...}]}.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace evenkeel {

struct ModelCard {
  std::string id;
  std::string owner;  ///< empty: not said
};

/// In the server's order; nothing when the text is no list of models.
std::optional<std::vector<ModelCard>> read_model_cards(std::string text);

}  // namespace evenkeel
