// Where keys are that stand in the wrong place of a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::config_file {

// The places of a key, or of the one that was probably meant, that the struct at `path`
// ("pools[0]") does not have.
struct KeyPlaces {
  std::vector<std::string> below;      // that struct, from there: "limits.max_in_flight"
  std::vector<std::string> elsewhere;  // the nearest, from the top: "pools[].limits.max_in_flight"
};
KeyPlaces places_of_key(std::string_view key, std::string_view path);

// What a key means within `inside`, a mapping in the struct at `path`: "timeouts.first_byte".
// Empty: nothing.
std::string place_inside(std::string_view inside, std::string_view key, std::string_view path);

// The place now, from the same struct, of a key that once was at `path`: "picker.header" for
// "pools[0].hash.header". Empty: there was none.
std::string_view new_place_of(std::string_view path);

// "limits" of "pools[0].limits"
std::string_view name_in(std::string_view place);

}  // namespace evenkeel::config_file
