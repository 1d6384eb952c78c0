// The grammar of nginx's files: words that end in a semicolon or a block.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "import/draft.h"

namespace evenkeel::import {

/// A directive: `listen 443 ssl;`, or with a block `location / { ... }`.
struct NginxDirective {
  std::vector<std::string> words;  ///< its name first; none: the file
  int line = 0;
  std::vector<NginxDirective> children;
  bool used = false;    ///< what it says is in the configuration, or needs not be
  bool closed = false;  ///< evenkeel answers in its place, so that nothing in it is open

  const std::string& name() const { return words.front(); }
  /// The words behind the name.
  std::span<const std::string> arguments() const { return std::span(words).subspan(1); }
  /// The first argument; empty if there is none.
  std::string_view argument() const { return words.size() > 1 ? words[1] : std::string_view(); }
};

/// The directives of the file, as children of a nameless one.
std::variant<NginxDirective, SyntaxError> parse_nginx(std::string_view text);

}  // namespace evenkeel::import
