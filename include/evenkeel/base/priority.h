// How urgent a request is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel {

/// The first is the most urgent.
enum class Priority : std::uint8_t {
  interactive,  ///< someone waits for each token
  standard,
  batch,  ///< it may take minutes
};

inline constexpr int priority_count = static_cast<int>(Priority::batch) + 1;

/// The stable word of a priority, such as "batch".
const char* to_string(Priority priority);
/// The priority with this word, in any case.
std::optional<Priority> parse_priority(std::string_view word);

}  // namespace evenkeel
