// Regular expressions as RE2 has them. A match takes time in proportion to the text, and memory up
// to a limit, whatever the expression and the text are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace evenkeel {

/// A compiled expression over bytes. Immutable; any thread.
class Regex {
 public:
  explicit Regex(std::string_view pattern);

  /// Why the pattern is not a regular expression; empty: it is one.
  std::string problem() const;
  /// Why the text cannot replace a match: it has a group that the pattern does not have, or a
  /// backslash before something else than a digit or a backslash. Empty: it can.
  std::string problem_of_replacement(std::string_view replacement) const;

  /// True if the expression matches all of the text. REQUIRES: there is no problem.
  bool matches(std::string_view text) const;
  /// Replaces what it matches first in the text; `\1` to `\9` stand for groups, `\0` for the whole
  /// match. False: it matches nothing there. REQUIRES: there is no problem, of either.
  bool replace_first(std::string& text, std::string_view replacement) const;

 private:
  std::shared_ptr<const re2::RE2> expression_;
};

}  // namespace evenkeel
