// `evenkeel explain`: what the reasons of failed requests mean, for a terminal and as a page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/check.h"

namespace evenkeel {

/// What a reason means, its likely cause and its cure, in lines of at most `width` columns. Without
/// a word: every reason with its meaning. An unknown word is a usage error that names the nearest.
CommandOutput explain_command(std::string_view word, std::size_t width);

/// docs/reasons.md.
std::string reasons_page();

}  // namespace evenkeel
