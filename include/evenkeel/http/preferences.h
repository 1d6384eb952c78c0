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

/// The weight that an `accept-encoding` gives a content coding, such as "gzip", or "identity" for
/// none. 0: it refuses it, or has neither its name nor `*`.
double weight_of_coding(std::string_view accept_encoding, std::string_view coding);

/// The weight that an `accept` gives a media type, such as "text/html", by its name or by `text/*`.
/// 0: it refuses it, or names it in neither way: `*/*` does not count.
double weight_of_named_type(std::string_view accept, std::string_view type);

}  // namespace evenkeel
