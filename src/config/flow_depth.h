// How deeply the lists and mappings in brackets of a file are nested, and how many values they
// have.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace evenkeel::config_file {

/// Where brackets hold too much, and of what.
struct FlowExcess {
  std::size_t at = 0;    ///< in the text
  bool is_deep = false;  ///< else there are too many values
};

/// The first bracket, '[' or '{', that is nested more than `max_depth` levels deep, or the first
/// value in brackets of more than `max_values`. yaml-cpp keeps tokens of all that is behind a
/// bracket until that one is closed, some 240 bytes for each: it is not to read such a file at all.
std::optional<FlowExcess> find_flow_excess(std::string_view text, std::size_t max_depth,
                                           std::size_t max_values);

}  // namespace evenkeel::config_file
