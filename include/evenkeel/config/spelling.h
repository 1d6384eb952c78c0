// "Did you mean ...?": the nearest of a few known words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// The number of insertions, deletions, substitutions and swaps of neighbours between two words
/// (Damerau-Levenshtein, optimal string alignment), or `limit` where there are at least that many.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

/// The one of `words` that was probably meant. In this order: the same word but for case, '-' and
/// '_'; what other proxies' name for it means here ("leastconn", "upstreams"); a word at most two
/// edits away (one edit where a word has up to three letters); a word that it begins or ends with
/// ("idle_timeout" for "idle"), or the reverse. Nothing if no word is near.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& words);

}  // namespace evenkeel
