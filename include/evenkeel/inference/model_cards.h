// A list of models of OpenAI's API: {"data": [{"id": ..., "owned_by": ...}]}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

struct ModelCard {
  /// The longest `details` that are kept.
  static constexpr std::size_t max_details = 4096;

  std::string id;
  std::string owner;         ///< empty: unknown
  std::int64_t created = 0;  ///< Unix time in seconds; 0: unknown
  std::string parent;        ///< of an adapter: its base model. In `details`, too
  /// The other fields of the entry, as members of a JSON object: `"root":"x","max_model_len":4096`.
  /// Without `permission`, whose ids vLLM draws anew each time. Empty: none, or too many.
  std::string details;

  /// True if all is the same but `created`, which vLLM sets to the time of the request.
  bool same_model(const ModelCard& other) const {
    return id == other.id && owner == other.owner && parent == other.parent &&
           details == other.details;
  }
};

/// Returns the models in the server's order. Entries that name no model are left out and counted in
/// `odd`; nothing if the text is not a list, or a list of nothing else.
std::optional<std::vector<ModelCard>> read_model_cards(std::string_view text,
                                                       std::size_t* odd = nullptr);

}  // namespace evenkeel
