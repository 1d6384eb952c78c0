// Files of other programs, for `evenkeel import`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "evenkeel/config/tree.h"

namespace evenkeel {

// The text of a file, or of standard input for "-"; at most 16 MiB and a byte. On failure returns
// nothing and sets `why`. May block.
std::optional<std::string> read_foreign_file(const std::string& file, std::string& why);

// Why a text was not read.
struct YamlError {
  int line = 0;
  std::string message;
};

// Reads the one document of a YAML text, as strictly as a file of ours: no anchors, tags or
// duplicate keys. Does not throw, whatever the text contains.
std::variant<config_file::Tree, YamlError> read_foreign_yaml(std::string_view text);

}  // namespace evenkeel
