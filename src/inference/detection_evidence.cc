#include "inference/detection_evidence.h"

#include <algorithm>
#include <utility>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

using Keys = DetectionEvidence::Keys;

const Keys no_keys;

/// Nothing if the text is not a JSON object.
std::optional<Keys> keys_of(std::string_view text) {
  const auto document = parse_json(text);
  if (!document || !document->is_object()) return std::nullopt;
  Keys keys;
  for (const auto& [name, value] : document->members()) keys[name] = value.text();
  return keys;
}

}  // namespace

DetectionEvidence::DetectionEvidence(const std::vector<DetectionResponse>& responses)
    : responses_(responses) {
  for (const DetectionResponse& response : responses) {
    keys_.push_back(keys_of(response.body));
    if (response.path != "/v1/models" || response.status != 200) continue;
    if (auto cards = read_model_cards(response.body)) cards_ = std::move(*cards);
  }
}

bool DetectionEvidence::has_owner(std::string_view owner) const {
  return std::ranges::find(cards_, owner, &ModelCard::owner) != cards_.end();
}

const DetectionResponse* DetectionEvidence::at(std::string_view path) const {
  const auto found = std::ranges::find(responses_, path, &DetectionResponse::path);
  return found == responses_.end() ? nullptr : &*found;
}

const Keys& DetectionEvidence::object_at(std::string_view path) const {
  const DetectionResponse* response = at(path);
  if (response == nullptr || response->status != 200) return no_keys;
  const auto& keys = keys_[static_cast<std::size_t>(response - responses_.data())];
  return keys ? *keys : no_keys;
}

std::string_view DetectionEvidence::text_at(const Keys& keys, std::string_view name) {
  const auto found = keys.find(name);
  return found == keys.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace evenkeel
