#include "config/flow_depth.h"

#include <algorithm>

namespace evenkeel::config_file {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_blank(char c) { return blanks.find(c) != blanks.npos; }

/// Skips the text in quotes that begins here, or only the first quote if there is no second one.
std::size_t skip_quoted(std::string_view text, std::size_t at) {
  const std::size_t begin = at + 1;
  const char quote = text[at];
  for (at = begin; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;  // '' inside '...' is another text in quotes that follows at once
    }
  }
  return begin;
}

/// True if "---" or "..." is on this line: what follows begins a value.
bool is_marker(std::string_view text, std::size_t at) {
  const std::string_view three = text.substr(at, 3);
  const bool begins_line = at == 0 || text[at - 1] == '\n';
  return begins_line && (three == "---" || three == "...") &&
         (at + 3 == text.size() || is_blank(text[at + 3]));
}

}  // namespace

std::optional<FlowExcess> find_flow_excess(std::string_view text, std::size_t max_depth,
                                           std::size_t max_values) {
  std::size_t depth = 0;
  std::size_t values = 0;
  bool begins = true;  // a value may begin here: elsewhere brackets and quotes are text
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool after_blank = at == 0 || is_blank(text[at - 1]);
    const bool before_blank = at + 1 == text.size() || is_blank(text[at + 1]);
    if (c == '#' && after_blank) {
      at = std::min(text.find('\n', at), text.size());
    } else if (begins && (c == '"' || c == '\'')) {
      at = skip_quoted(text, at);
      begins = at < text.size() && text[at] == '\'';
    } else if (begins && (c == '!' || c == '&')) {  // a tag, an anchor: a value follows
      at = std::min(text.find_first_of(" \t\r\n[]{},", at), text.size());
    } else if (is_marker(text, at)) {
      at += 3;
      begins = true;
    } else {
      const bool begins_value = depth > 0 && (c == '[' || c == '{' || c == ',' || c == ':');
      if (begins_value && ++values > max_values) return FlowExcess{.at = at};
      if ((c == '[' || c == '{') && (begins || depth > 0)) {
        if (++depth > max_depth) return FlowExcess{.at = at, .is_deep = true};
        begins = true;
      } else if ((c == ']' || c == '}') && depth > 0) {
        --depth;
        begins = false;
      } else if (c == '\n' || (c == ',' && depth > 0) ||
                 (c == ':' && (before_blank || depth > 0))) {
        begins = true;
      } else if (!is_blank(c)) {
        begins = begins && (c == '-' || c == '?') && before_blank;
      }
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace evenkeel::config_file
