#include "evenkeel/inference/model_cards.h"

#include <string_view>
#include <utility>

#include "evenkeel/base/json.h"
#include "inference/json_reader.h"

namespace evenkeel {
namespace {

using simdjson::ondemand::json_type;

/// Writes a value again, so that what is passed on is JSON whatever the server sent.
void append_value(std::string& out, simdjson::ondemand::value value) {
  json::check_depth(value);
  bool first = true;
  const auto separate = [&] {
    if (!std::exchange(first, false)) out += ',';
  };
  switch (value.type()) {
    case json_type::object:
      out += '{';
      for (auto field : value.get_object()) {
        separate();
        append_json_string(out, std::string_view(field.unescaped_key()));
        out += ':';
        append_value(out, field.value());
      }
      out += '}';
      break;
    case json_type::array:
      out += '[';
      for (auto element : value.get_array()) {
        separate();
        append_value(out, element.value());
      }
      out += ']';
      break;
    case json_type::string: append_json_string(out, value.get_string().value()); break;
    case json_type::boolean: out += value.get_bool().value() ? "true" : "false"; break;
    case json_type::number: out += json::number_text(value.raw_json_token()); break;
    case json_type::null:
      json::skip_value(value);
      out += "null";
      break;
  }
}

std::int64_t time_of(simdjson::ondemand::value value) {
  if (value.type() != json_type::number) {
    json::skip_value(value);
    return 0;
  }
  json::number_text(value.raw_json_token());
  const double seconds = value.get_double().value();
  constexpr double latest = 253'402'300'799;  // the end of the year 9999
  return seconds >= 0 && seconds <= latest ? static_cast<std::int64_t>(seconds) : 0;
}

void read_field(ModelCard& card, std::string_view key, simdjson::ondemand::value item) {
  const bool is_text = item.type() == json_type::string;
  if (key == "id" && is_text) {
    card.id = json::string_of(item, key);
  } else if (key == "owned_by" && is_text) {
    card.owner = json::string_of(item, key);
  } else if (key == "created") {
    card.created = time_of(item);
  } else if (key == "object" || key == "permission" || key == "owned_by" || key == "id") {
    json::skip_value(item);
  } else {
    if (!card.details.empty()) card.details += ',';
    append_json_string(card.details, key);
    card.details += ':';
    if (key == "parent" && is_text) {
      card.parent = json::string_of(item, key);
      append_json_string(card.details, card.parent);
    } else {
      append_value(card.details, item);
    }
  }
}

/// Nothing: it is no model.
std::optional<ModelCard> read_card(std::string text) {
  ModelCard card;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        const std::string key(name);
        read_field(card, key, value);
      });
  if (!read || card.id.empty()) return std::nullopt;
  if (card.details.size() > ModelCard::max_details) card.details.clear();
  return card;
}

}  // namespace

std::optional<std::vector<ModelCard>> read_model_cards(std::string text, std::size_t* odd) {
  // Each entry is read on its own, so that one that is odd spoils no other.
  std::optional<std::vector<std::string>> entries;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        if (name != "data" || value.type() != json_type::array) {
          json::skip_value(value);
          return;
        }
        entries.emplace();
        for (auto entry : value.get_array()) {
          entries->emplace_back(std::string_view(simdjson::to_json_string(entry.value())));
        }
      });
  if (!read || !entries) return std::nullopt;
  std::vector<ModelCard> cards;
  for (std::string& entry : *entries) {
    if (auto card = read_card(std::move(entry))) cards.push_back(std::move(*card));
  }
  if (cards.empty() && !entries->empty()) return std::nullopt;
  if (odd != nullptr) *odd = entries->size() - cards.size();
  return cards;
}

}  // namespace evenkeel
