#include "evenkeel/inference/json.h"

#include <cmath>
#include <cstdint>

#include "inference/json_reader.h"

namespace evenkeel {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

Result<std::map<std::string, JsonScalar>> parse_json_scalars(std::string& json) {
  std::map<std::string, JsonScalar> scalars;
  auto read = json::read_object(json, [&](std::string_view key, simdjson::ondemand::value value) {
    JsonScalar& place = scalars[std::string(key)];
    switch (value.type()) {
      case simdjson::ondemand::json_type::null:
        json::skip_value(value);
        place = std::monostate{};
        break;
      case simdjson::ondemand::json_type::boolean: place = value.get_bool().value(); break;
      case simdjson::ondemand::json_type::number: place = value.get_double().value(); break;
      case simdjson::ondemand::json_type::string:
        place = std::string(value.get_string().value());
        break;
      default: throw json::InvalidValue{"'" + std::string(key) + "' should be a plain value"};
    }
  });
  if (!read) return std::move(read.error());
  return scalars;
}

namespace json {
namespace {

constexpr std::int32_t max_depth = 512;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Error bad_json(std::string_view what) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::string(what)};
}

std::string_view number_text(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  // RFC 8259, 6: [ minus ] int [ frac ] [ exp ]
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < token.size() && is_digit(token[at])) ++at;
    return at - start;
  };
  const auto next_is = [&](char c) { return at < token.size() && token[at] == c; };

  if (next_is('-')) ++at;
  const bool leading_zero = next_is('0');
  const std::size_t whole = digits();
  bool good = whole == 1 || (whole > 1 && !leading_zero);
  if (next_is('.')) {
    ++at;
    good = digits() > 0 && good;
  }
  if (next_is('e') || next_is('E')) {
    ++at;
    if (next_is('+') || next_is('-')) ++at;
    good = digits() > 0 && good;
  }
  if (!good || at != token.size()) throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
  return token;
}

void check_depth(simdjson::ondemand::value value) {
  if (value.current_depth() > max_depth) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
}

void skip_value(simdjson::ondemand::value value) {
  check_depth(value);
  switch (value.type()) {
    case simdjson::ondemand::json_type::object:
      for (auto field : value.get_object()) {
        static_cast<void>(field.unescaped_key().value());
        skip_value(field.value().value());
      }
      break;
    case simdjson::ondemand::json_type::array:
      for (auto element : value.get_array()) skip_value(element.value());
      break;
    case simdjson::ondemand::json_type::string:
      static_cast<void>(value.get_string().value());
      break;
    case simdjson::ondemand::json_type::boolean: static_cast<void>(value.get_bool().value()); break;
    case simdjson::ondemand::json_type::null:
      if (!value.is_null()) throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
      break;
    case simdjson::ondemand::json_type::number: number_text(value.raw_json_token()); break;
  }
}

std::string string_of(simdjson::ondemand::value value, std::string_view key) {
  if (value.type() != simdjson::ondemand::json_type::string) {
    throw InvalidValue{"'" + std::string(key) + "': Input should be a valid string"};
  }
  return std::string(value.get_string().value());
}

bool bool_of(simdjson::ondemand::value value, std::string_view key) {
  if (value.type() != simdjson::ondemand::json_type::boolean) {
    throw InvalidValue{"'" + std::string(key) + "': Input should be a valid boolean"};
  }
  return value.get_bool().value();
}

std::uint32_t count_of(simdjson::ondemand::value value, std::string_view key,
                       std::uint32_t minimum) {
  constexpr std::uint32_t most = ~std::uint32_t{0};
  const auto refuse = [&](const char* what) {
    throw InvalidValue{"'" + std::string(key) + "': " + what};
  };
  if (value.type() != simdjson::ondemand::json_type::number)
    refuse("Input should be a valid integer");
  number_text(value.raw_json_token());
  const double number = value.get_double().value();
  if (number != std::trunc(number)) refuse("Input should be a valid integer");
  if (number < minimum) refuse(minimum == 0 ? "must be at least 0" : "must be at least 1");
  return number >= most ? most : static_cast<std::uint32_t>(number);
}

}  // namespace json
}  // namespace evenkeel
