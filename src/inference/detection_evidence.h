// The responses of one server to the requests of detection, parsed for the rules of the engines.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/inference/model_cards.h"

namespace evenkeel {

/// REQUIRES: the responses outlive this object.
class DetectionEvidence {
 public:
  /// The keys of a JSON object; values that are not strings are empty.
  using Keys = std::map<std::string, std::string, std::less<>>;

  explicit DetectionEvidence(const std::vector<DetectionResponse>& responses);

  /// The models that the server lists, in its order.
  const std::vector<ModelCard>& cards() const { return cards_; }
  /// True if some model in the list of models has this `owned_by`.
  bool has_owner(std::string_view owner) const;
  /// The response to that path; null if there is none.
  const DetectionResponse* at(std::string_view path) const;
  /// The JSON object in a successful response to that path; empty if there is none.
  const Keys& object_at(std::string_view path) const;
  /// True if some response matches. `matches` takes the response and its JSON object.
  template <class Predicate>
  bool any(Predicate matches) const {
    static const Keys none;
    for (std::size_t i = 0; i < responses_.size(); ++i) {
      if (matches(responses_[i], keys_[i] ? *keys_[i] : none)) return true;
    }
    return false;
  }

  /// The string at a key; empty if there is none.
  static std::string_view text_at(const Keys& keys, std::string_view name);

 private:
  const std::vector<DetectionResponse>& responses_;
  std::vector<std::optional<Keys>> keys_;  // by response; nothing: no JSON object
  std::vector<ModelCard> cards_;
};

}  // namespace evenkeel
