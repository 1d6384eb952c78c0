// What other proxies, load balancers and inference servers call our keys and values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::config_file {

// The one of `words` that `word` stands for elsewhere, such as "least-connections" for HAProxy's
// "leastconn". Case, '-', '_', '.', '/' and spaces do not count. docs/glossary.md lists the names
// of the most common things.
std::optional<std::string> meaning_of(std::string_view word, const std::vector<std::string>& words);

}  // namespace evenkeel::config_file
