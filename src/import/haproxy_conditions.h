// What HAProxy's ACLs match, as conditions of routes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel::import {

/// Alternatives: a request matches if it matches one of them.
using Alternatives = std::vector<RouteMatch>;

/// What a condition matches, or more than that.
struct WideReading {
  Alternatives matches{{}};
  bool is_said = true;       ///< else `matches` takes more
  bool leaves_rest = false;  ///< paths that begin within a segment or differ in case are missing
};

/// The ACLs of a section.
class HaproxyConditions {
 public:
  /// Adds `acl NAME CRITERION...`; another line of the same name is an alternative. False: routes
  /// cannot say it.
  bool add(std::string_view name, std::span<const std::string> criterion);

  /// What the words behind `if` match; nothing if routes cannot say it.
  std::optional<Alternatives> read(std::span<const std::string> words) const;
  /// What the words match at most: terms that routes cannot say always hold.
  WideReading read_wide(std::span<const std::string> words) const;

 private:
  std::optional<Alternatives> term(std::span<const std::string>& words, WideReading* wide) const;

  std::map<std::string, std::vector<std::vector<std::string>>, std::less<>> named_;
};

/// What both match; all that `a` matches if one route cannot say that.
RouteMatch both_or_first(const RouteMatch& a, const RouteMatch& b);

}  // namespace evenkeel::import
