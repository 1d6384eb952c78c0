#include "config/key_places.h"

#include <algorithm>
#include <iterator>

#include "config/fields.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel::config_file {
namespace {

// A key that stood elsewhere, and its place now in the same struct.
struct MovedKey {
  std::string_view before;
  std::string_view now;
};
constexpr MovedKey moved_keys[] = {
    {"pools[].hash.header", "picker.header"},
    {"pools[].hash.load_factor", "picker.load_factor"},
    {"pools[].gpu.memory_guard", "picker.memory_guard"},
    {"pools[].slo", "picker.slo"},
    {"pools[].expected_time.shed", "picker.shed"},
    {"pools[].expected_time.index_memory", "picker.index_memory"},
    {"pools[].expected_time.shared_backends", "picker.shared_backends"},
    {"pools[].expected_time.explain_one_in", "picker.explain_one_in"},
    {"pools[].shadow_picker", "picker.shadow_picker"},
    {"pools[].weights", "picker.weights"},
    {"pools[].spares", "standby"},
};

// Every key of the file: "pools[].limits.max_in_flight".
const std::vector<std::string>& all_places() {
  static const std::vector<std::string> places = [] {
    ReferenceRows rows;
    StructForm<Config>{}.add_reference_rows(rows, {});
    std::vector<std::string> list;
    for (const ReferenceRow& row : rows) list.push_back(row.path);
    return list;
  }();
  return places;
}

// "pools[]" of "pools[12]"
std::string without_indices(std::string_view path) {
  std::string out;
  bool within = false;
  for (const char c : path) {
    within = within && c != ']';
    if (!within) out += c;
    within = within || c == '[';
  }
  return out;
}

// How many of the first keys two places share.
std::size_t shared_keys(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (!a.empty() && !b.empty()) {
    const std::string_view first = a.substr(0, a.find('.'));
    if (first != b.substr(0, b.find('.'))) break;
    ++count;
    a.remove_prefix(std::min(first.size() + 1, a.size()));
    b.remove_prefix(std::min(first.size() + 1, b.size()));
  }
  return count;
}

}  // namespace

std::string_view name_in(std::string_view place) {
  const std::size_t dot = place.rfind('.');
  return dot == place.npos ? place : place.substr(dot + 1);
}

std::string_view new_place_of(std::string_view path) {
  const auto* const moved = std::ranges::find(moved_keys, without_indices(path), &MovedKey::before);
  return moved == std::end(moved_keys) ? std::string_view() : moved->now;
}

std::string place_inside(std::string_view inside, std::string_view key, std::string_view path) {
  const std::string own = without_indices(path);
  const std::string folder = (own.empty() ? "" : own + ".") + std::string(inside);
  std::vector<std::string> names;
  for (const std::string& place : all_places()) {
    if (place.starts_with(folder + ".") &&
        place.size() == folder.size() + 1 + name_in(place).size())
      names.emplace_back(name_in(place));
  }
  const auto meant = nearest_word(key, names);
  return meant ? std::string(inside) + "." + *meant : std::string();
}

KeyPlaces places_of_key(std::string_view key, std::string_view path) {
  const std::string own = without_indices(path);
  const std::string prefix = own.empty() ? "" : own + ".";
  KeyPlaces found;
  std::vector<std::string> names;  // of the keys below
  std::size_t most = 0;
  for (const std::string& place : all_places()) {
    const bool is_below = place.starts_with(prefix);
    if (is_below) names.emplace_back(name_in(place));
    if (name_in(place) != key) continue;
    if (is_below) {
      found.below.push_back(place.substr(prefix.size()));
      continue;
    }
    const std::size_t shared = shared_keys(place, own);
    if (shared > most) found.elsewhere.clear();
    most = std::max(most, shared);
    if (shared == most) found.elsewhere.push_back(place);
  }
  if (!found.below.empty() || !found.elsewhere.empty()) return found;
  const auto meant = nearest_word(key, names);
  for (const std::string& place : all_places()) {
    if (meant && place.starts_with(prefix) && name_in(place) == *meant)
      found.below.push_back(place.substr(prefix.size()));
  }
  return found;
}

}  // namespace evenkeel::config_file
