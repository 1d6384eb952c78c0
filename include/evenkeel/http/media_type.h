// Media types, as in a content-type field (RFC 9110, section 8.3.1).
#pragma once

#include <string_view>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

/// The type without its parameters.
inline std::string_view media_type_of(std::string_view content_type) {
  return trimmed(content_type.substr(0, content_type.find(';')));
}

/// True if the field has this type, with or without parameters, or a coding of it ("type+proto").
/// `type`: in lower case.
inline bool is_media_type(std::string_view content_type, std::string_view type) {
  if (content_type.size() < type.size()) return false;
  // Where most others differ: "application/json", "application/grpc".
  if (to_lower(content_type[type.size() - 1]) != type.back()) return false;
  if (!starts_with_ignore_case(content_type, type)) return false;
  if (content_type.size() == type.size()) return true;
  const char next = content_type[type.size()];
  return next == '+' || next == ';' || next == ' ' || next == '\t';
}

}  // namespace evenkeel
