// "Did you mean ...?": the nearest of some known words or names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
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

/// What to say of a word that is none of the known ones.
struct UnknownWord {
  std::string message;  ///< "unknown picker 'last', available: gpu, ..."
  std::string help;     ///< "did you mean 'least-connections'?"; empty: no word is near
};

/// `what`: what the word should name, such as "picker".
UnknownWord unknown_word(std::string_view what, std::string_view word,
                         const std::vector<std::string>& known);
UnknownWord unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> known);
/// Message and help in one line.
std::string to_string(const UnknownWord& unknown);

/// The most that `near_names` finds, and how many names it looks at: the name is a client's, and
/// must not cost much.
inline constexpr std::size_t max_near_names = 3;
inline constexpr std::size_t max_looked_at_names = 1000;

/// Finds the names that a client that wrote `name` may have meant, best first: the same but for
/// case and separators; the same behind its last '/' and before a ':' ("llama3" for
/// "meta/llama3:8b"); a few edits away; one that it begins, or that begins it. For names of models.
std::vector<std::string_view> near_names(std::string_view name,
                                         std::span<const std::string_view> names);

}  // namespace evenkeel
