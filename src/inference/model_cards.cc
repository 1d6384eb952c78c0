#include "inference/model_cards.h"

#include <string_view>

#include "inference/json_reader.h"

namespace evenkeel {
namespace {

ModelCard read_card(simdjson::ondemand::value value) {
  ModelCard card;
  for (auto field : value.get_object()) {
    const std::string key(std::string_view(field.unescaped_key()));
    simdjson::ondemand::value item = field.value();
    if (key == "id") {
      card.id = json::string_of(item, key);
    } else if (key == "owned_by" && !json::is_null(item)) {
      card.owner = json::string_of(item, key);
    } else {
      json::skip_value(item);
    }
  }
  return card;
}

}  // namespace

std::optional<std::vector<ModelCard>> read_model_cards(std::string text) {
  std::optional<std::vector<ModelCard>> cards;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        if (name != "data" || value.type() != simdjson::ondemand::json_type::array) {
          json::skip_value(value);
          return;
        }
        cards.emplace();
        for (auto card : value.get_array()) cards->push_back(read_card(card.value()));
      });
  if (!read) return std::nullopt;
  return cards;
}

}  // namespace evenkeel
