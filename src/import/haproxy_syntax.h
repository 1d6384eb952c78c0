// The grammar of HAProxy's files: sections of lines of words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "import/draft.h"

namespace evenkeel::import {

struct HaproxyLine {
  std::vector<std::string> words;  ///< never empty
  int line = 0;
  bool used = false;  ///< what it says is in the configuration, or needs not be

  const std::string& keyword() const { return words.front(); }
  /// The word at `index`; empty if there is none.
  std::string_view word(std::size_t index) const {
    return index < words.size() ? std::string_view(words[index]) : std::string_view();
  }
  std::span<const std::string> arguments() const { return std::span(words).subspan(1); }
};

/// A section such as `backend llama`, and its lines.
struct HaproxySection {
  HaproxyLine head;
  std::vector<HaproxyLine> lines;

  const std::string& kind() const { return head.keyword(); }
  std::string_view name() const { return head.word(1); }
};

std::variant<std::vector<HaproxySection>, SyntaxError> parse_haproxy(std::string_view text);

}  // namespace evenkeel::import
