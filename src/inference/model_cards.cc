#include "evenkeel/inference/model_cards.h"

#include <algorithm>
#include <string_view>

#include "evenkeel/json/value.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

std::int64_t time_of(const JsonValue& value) {
  constexpr double latest = 253'402'300'799;  // the end of the year 9999
  const double seconds = value.number().value_or(0);
  return seconds >= 0 && seconds <= latest ? static_cast<std::int64_t>(seconds) : 0;
}

bool is_detail(std::string_view key) {
  constexpr std::string_view others[] = {"id", "owned_by", "created", "object", "permission"};
  return std::ranges::find(others, key) == std::end(others);
}

/// A card without an id: the entry is no model.
ModelCard read_card(const JsonValue& entry) {
  ModelCard card{.id = entry["id"].text(),
                 .owner = entry["owned_by"].text(),
                 .created = time_of(entry["created"]),
                 .parent = entry["parent"].text(),
                 .details = {}};
  for (const auto& [key, value] : entry.members()) {
    if (!is_detail(key)) continue;
    if (!card.details.empty()) card.details += ',';
    append_json_string(card.details, key);
    card.details += ':';
    append_json(card.details, value);
  }
  if (card.details.size() > ModelCard::max_details) card.details.clear();
  return card;
}

}  // namespace

std::optional<std::vector<ModelCard>> read_model_cards(std::string_view text, std::size_t* odd) {
  const auto document = parse_json(text);
  if (!document || !(*document)["data"].is_array()) return std::nullopt;
  const JsonValue::List& entries = (*document)["data"].items();
  std::vector<ModelCard> cards;
  for (const JsonValue& entry : entries) {
    ModelCard card = read_card(entry);
    if (!card.id.empty()) cards.push_back(std::move(card));
  }
  if (cards.empty() && !entries.empty()) return std::nullopt;
  if (odd != nullptr) *odd = entries.size() - cards.size();
  return cards;
}

}  // namespace evenkeel
