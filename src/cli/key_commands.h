// `evenkeel key`: makes API keys, and keeps their hashes in a file.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check.h"

namespace evenkeel {

struct NewKey {
  std::string tenant;
  std::string name;
  std::vector<std::string> models;
  std::optional<std::chrono::sys_seconds> expires;
};

/// Makes a key, adds its hash to the file, and prints the key: it is kept nowhere.
CommandOutput create_key(const std::string& file, const NewKey& wanted);

/// The keys of a file, as a table or as JSON; without `width`: of any width.
CommandOutput list_keys(const std::string& file, bool json, std::optional<std::size_t> width);

/// Removes the line of the key whose hash begins with `id`.
CommandOutput revoke_key(const std::string& file, std::string_view id);

}  // namespace evenkeel
