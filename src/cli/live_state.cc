#include "cli/live_state.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using Members = std::vector<JsonValue::Member>;
using Items = std::vector<JsonValue>;
using IdentityFields = std::initializer_list<std::string_view>;

/// `object` with the members of `changes` in place of its own, or added.
JsonValue merged(const JsonValue& object, const JsonValue& changes) {
  Members members = object.members();
  for (const auto& [name, value] : changes.members()) {
    const auto known = std::ranges::find(members, name, &JsonValue::Member::first);
    if (known == members.end()) {
      members.emplace_back(name, value);
    } else {
      known->second = value;
    }
  }
  return JsonValue(std::move(members));
}

std::string key_of(const JsonValue& item, IdentityFields identity) {
  std::string key;
  for (const std::string_view field : identity) key += item[field].text() + '\n';
  return key;
}

/// A list without what was removed, and with what was changed or added.
JsonValue updated(const JsonValue& list, const JsonValue& changes, const JsonValue& removed,
                  IdentityFields identity) {
  std::unordered_set<std::string> gone;
  for (const JsonValue& item : removed.items()) gone.insert(key_of(item, identity));
  Items items;
  std::unordered_map<std::string, std::size_t> places;
  const auto add = [&](const JsonValue& item) {
    places.emplace(key_of(item, identity), items.size());
    items.push_back(item);
  };
  for (const JsonValue& item : list.items()) {
    if (!gone.contains(key_of(item, identity))) add(item);
  }
  for (const JsonValue& change : changes.items()) {
    const auto place = places.find(key_of(change, identity));
    if (place == places.end()) {
      add(change);
    } else {
      items[place->second] = merged(items[place->second], change);
    }
  }
  return JsonValue(std::move(items));
}

}  // namespace

LiveState after_event(LiveState state, std::string_view kind, const JsonValue& data) {
  if (kind == "snapshot") return {data["status"], data["pools"], data["backends"]};
  if (kind != "diff") return state;
  const JsonValue& removed = data["removed"];
  return {merged(state.status, data["status"]),
          updated(state.pools, data["pools"], removed["pools"], {"name"}),
          updated(state.backends, data["backends"], removed["backends"], {"pool", "id"})};
}

}  // namespace evenkeel
