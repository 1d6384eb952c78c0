#pragma once

#include <string>
#include <string_view>

namespace evenkeel::config_file {

// ASCII letters in lower case.
std::string lower(std::string_view text);

// "did you mean 'WORD'?"
std::string did_you_mean(std::string_view word);

}  // namespace evenkeel::config_file
