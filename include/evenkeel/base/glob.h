// Patterns in which '*' stands for any text.
#pragma once

#include <string_view>

namespace evenkeel {

enum class LetterCase : bool { exact, ignored };

/// Whether `pattern` matches all of `text`; '*' stands for any text, none included. Takes at most
/// the product of their sizes. `letters`: of ASCII.
bool matches_glob(std::string_view pattern, std::string_view text,
                  LetterCase letters = LetterCase::exact);

}  // namespace evenkeel
