// Patterns in which '*' stands for any text, and "\*" for a star, "\\" for a backslash.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

enum class LetterCase : bool { exact, ignored };

/// True if `pattern` matches all of `text`; '*' stands for any text, none included. Takes at most
/// the product of their sizes. `letters`: of ASCII.
bool matches_glob(std::string_view pattern, std::string_view text,
                  LetterCase letters = LetterCase::exact);

/// True if the pattern has a star that stands for any text.
bool is_glob(std::string_view pattern);

/// The pattern that matches this text alone.
std::string glob_of(std::string_view text);

/// The text that a pattern matches. REQUIRES: !is_glob(pattern).
std::string text_of_glob(std::string_view pattern);

}  // namespace evenkeel
