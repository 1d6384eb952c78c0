#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::config_file {

// How many insertions, deletions, substitutions and swaps of neighbours lead from one word to the
// other (Damerau-Levenshtein, optimal string alignment); `enough` or more is reported as `enough`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// The word that was probably meant: at most two edits away (one for words of up to three letters),
// or the same but for case, '-' and '_', or one that it begins or ends with ("idle_timeout" for
// "idle"). Nothing if no word is near.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& words);

}  // namespace evenkeel::config_file
