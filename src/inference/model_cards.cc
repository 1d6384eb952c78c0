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

ModelCard read_card(simdjson::ondemand::value value) {
  ModelCard card;
  for (auto field : value.get_object()) {
    const std::string key(std::string_view(field.unescaped_key()));
    simdjson::ondemand::value item = field.value();
    if (key == "id") {
      card.id = json::string_of(item, key);
    } else if (key == "owned_by" && !json::is_null(item)) {
      card.owner = json::string_of(item, key);
    } else if (key == "created") {
      card.created = time_of(item);
    } else if (key == "object" || key == "permission" || key == "owned_by") {
      json::skip_value(item);
    } else {
      if (!card.details.empty()) card.details += ',';
      append_json_string(card.details, key);
      card.details += ':';
      if (key == "parent" && item.type() == json_type::string) {
        card.parent = json::string_of(item, key);
        append_json_string(card.details, card.parent);
      } else {
        append_value(card.details, item);
      }
    }
  }
  if (card.details.size() > ModelCard::max_details) card.details.clear();
  return card;
}

}  // namespace

std::optional<std::vector<ModelCard>> read_model_cards(std::string text) {
  std::optional<std::vector<ModelCard>> cards;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        if (name != "data" || value.type() != json_type::array) {
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
