// How deeply the lists and mappings in brackets of a file are nested.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace evenkeel::config_file {

/// The position of the first bracket, '[' or '{', that is nested more than `max_depth` levels deep.
/// yaml-cpp keeps tokens of all that is behind a bracket until that one is closed, some 240 bytes
/// for each: it is not to read such a file at all.
std::optional<std::size_t> find_too_deep(std::string_view text, std::size_t max_depth);

}  // namespace evenkeel::config_file
