// What the routes of a file say to a filter, found by the number of a request's route.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// A value for each route that has one. Immutable; any thread.
template <class T>
class ByRoute {
 public:
  /// `make(route)`: the value of a route, or nothing. The routes outlive it.
  template <class Make>
  ByRoute(const std::vector<RouteConfig>& routes, const Make& make) {
    for (const RouteConfig& route : routes) {
      entries_.push_back({route.name, make(route)});
      is_empty_ = is_empty_ && !entries_.back().value;
    }
  }

  /// True if no route has a value: nothing needs to be looked up.
  bool empty() const { return is_empty_; }

  /// The value of the request's route, or of the first that it may get while that depends on its
  /// body; null: none. A route of another version of the file is found by its name.
  const T* find(const RequestIdentity& identity) const {
    const std::uint32_t number = identity.routing.route;
    const bool is_open = identity.routing.state == RouteState::open;
    if (number < entries_.size() && (is_open || entries_[number].route == identity.route))
      return value_of(entries_[number]);
    if (identity.route.empty()) return nullptr;
    const auto found = std::ranges::find(entries_, identity.route, &Entry::route);
    return found == entries_.end() ? nullptr : value_of(*found);
  }

 private:
  struct Entry {
    std::string_view route;
    std::optional<T> value;
  };
  static const T* value_of(const Entry& entry) { return entry.value ? &*entry.value : nullptr; }

  std::vector<Entry> entries_;
  bool is_empty_ = true;
};

}  // namespace evenkeel
