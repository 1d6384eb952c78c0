#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/problems.h"
#include "evenkeel/config/tree.h"

namespace evenkeel::config_file {

// Reads the one document of a YAML text into a tree where every value and key has its place.
// Stricter than YAML: duplicate keys, anchors, aliases, merge keys, tags, a second document, and
// keys that are not plain words are reported. What is wrong inside one scalar does not keep the
// rest from being read; after any other syntax error the tree holds what came before it, the open
// ends marked as broken.
struct ParsedYaml {
  struct SyntaxError {
    Mark mark;
    std::string message;
    std::string help;
    int unreliable_from;  // the line from which on it spoils what was read
  };

  Tree root;
  std::optional<SyntaxError> syntax_error;  // not in the report yet
  bool structure_unreliable = false;        // keys may have been lost, though none is in sight
};

// REQUIRES: `text` is UTF-8 without control characters other than tabs and line ends.
ParsedYaml parse_yaml(std::string_view text, Report& report);

}  // namespace evenkeel::config_file
