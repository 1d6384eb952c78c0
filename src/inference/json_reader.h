// The only use of simdjson: one pass over a document, which checks all of it; errors are values.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "evenkeel/base/result.h"

namespace evenkeel::json {

/// A value of a wrong type or range; turned into an Error by `read_document`.
struct InvalidValue {
  std::string what;
};

/// Throws if the value is nested too deeply for a function that calls itself for what is in it:
/// simdjson has no limit here, and a server's answer of a megabyte could exhaust the stack.
void check_depth(simdjson::ondemand::value value);

/// Checks a value whose content does not matter: simdjson validates only what is read.
void skip_value(simdjson::ondemand::value value);

/// The text of a number as written; throws if it is not a number.
std::string_view number_text(std::string_view token);

std::string string_of(simdjson::ondemand::value value, std::string_view key);
bool bool_of(simdjson::ondemand::value value, std::string_view key);
/// An integer of at least `least`; larger ones than 32 bits are clamped to 32 bits.
std::uint32_t count_of(simdjson::ondemand::value value, std::string_view key,
                       std::uint32_t minimum);

inline bool is_null(simdjson::ondemand::value value) {
  return value.type() == simdjson::ondemand::json_type::null;
}

Error bad_json(std::string_view what);

/// Parses `text`, which must be an object, and gives each of its fields to `field(key, value)`,
/// which must consume the value. Not JSON, or `Unacceptable`: an Error.
template <class OnField>
Result<Done> read_object(std::string& text, OnField field) {
  constexpr std::size_t kept_parser_limit = 1 << 20;
  thread_local simdjson::ondemand::parser kept_parser;
  simdjson::ondemand::parser large_parser;  // frees its memory
  auto& parser = text.size() <= kept_parser_limit ? kept_parser : large_parser;
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  try {
    simdjson::ondemand::document document =
        parser.iterate(simdjson::padded_string_view(text.data(), text.size(), text.capacity()));
    if (document.type() != simdjson::ondemand::json_type::object) {
      return bad_json("Input should be a valid dictionary");
    }
    for (auto item : document.get_object()) {
      const std::string_view key = item.unescaped_key();
      field(key, item.value().value());
    }
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
      return bad_json("JSON decode error: extra data after the object");
    }
  } catch (const simdjson::simdjson_error& error) {
    return bad_json(std::string("JSON decode error: ") + error.what());
  } catch (const InvalidValue& invalid) {
    return bad_json(invalid.what);
  }
  return Done{};
}

}  // namespace evenkeel::json
