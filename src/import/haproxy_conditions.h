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

/// The ACLs of a frontend.
class HaproxyConditions {
 public:
  /// Adds `acl NAME CRITERION...`; another line of the same name is an alternative. False: routes
  /// cannot say it, nor any condition that uses this name.
  bool add(std::string_view name, std::span<const std::string> criterion);

  /// What the words behind `if` match; nothing if routes cannot say it.
  std::optional<Alternatives> read(std::span<const std::string> words) const;

 private:
  std::optional<Alternatives> term(std::span<const std::string>& words) const;

  std::map<std::string, std::optional<Alternatives>, std::less<>> named_;
};

}  // namespace evenkeel::import
