// Fields in which clients say what they take: `accept`, `accept-encoding` (RFC 9110, section 12.5).
#pragma once

#include <optional>
#include <string_view>

namespace evenkeel {

/// A thing that a client takes. Views are into the field.
struct Preference {
  std::string_view value;       ///< such as "gzip" or "text/*"
  std::string_view parameters;  ///< all of them, "q" included, with semicolons between
  double weight = 1;            ///< 0 to 1; 0: it is refused

  /// The value of a parameter, without quotes; nothing if there is none.
  std::optional<std::string_view> parameter(std::string_view name) const;
};

/// Takes the first preference off the field; nothing at its end.
std::optional<Preference> next_preference(std::string_view& field);

}  // namespace evenkeel
