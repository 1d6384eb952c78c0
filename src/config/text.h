#pragma once

#include <string>
#include <string_view>

namespace evenkeel::config_file {

// The text in lower case, without these characters.
std::string lower_without(std::string_view characters, std::string_view text);

// True if `word` is one of `words`, which have one space between them.
bool lists_word(std::string_view words, std::string_view word);

// The path of a key in the map at `path`.
std::string join(const std::string& path, std::string_view key);

// "did you mean 'WORD'?"
std::string did_you_mean(std::string_view word);

}  // namespace evenkeel::config_file
