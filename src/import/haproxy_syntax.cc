#include "import/haproxy_syntax.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace evenkeel::import {
namespace {

constexpr std::size_t max_defaults = 1'000;  // lines, which every section reads

constexpr std::string_view section_kinds[] = {"global",  "defaults",    "frontend", "backend",
                                              "listen",  "userlist",    "peers",    "resolvers",
                                              "mailers", "program",     "cache",    "http-errors",
                                              "ring",    "log-forward", "fcgi-app", "crt-store"};

/// The words of a line; nothing if a quote is not closed.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (quote == '\0' && c == '#') break;
    if (quote == '\0' && blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && at + 1 < line.size()) {
      words.back() += line[++at];
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  return words;
}

}  // namespace

std::variant<std::vector<HaproxySection>, SyntaxError> parse_haproxy(std::string_view text) {
  std::vector<HaproxySection> sections;
  std::size_t count = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    auto words = words_of(line);
    if (!words) return SyntaxError{number, "a quoted text that never ends"};
    if (words->empty()) continue;
    count += words->size();
    if (count > max_statements) return SyntaxError{number, "the file has too many words"};
    HaproxyLine read{std::move(*words), number};
    if (std::ranges::find(section_kinds, read.keyword()) != std::end(section_kinds)) {
      sections.push_back({std::move(read), {}});
    } else if (sections.empty()) {
      return SyntaxError{number, "'" + read.keyword() + "' stands before the first section"};
    } else {
      const bool too_long =
          sections.back().kind() == "defaults" && sections.back().lines.size() == max_defaults;
      if (too_long) return SyntaxError{number, "the section 'defaults' has too many lines"};
      sections.back().lines.push_back(std::move(read));
    }
  }
  return sections;
}

}  // namespace evenkeel::import
