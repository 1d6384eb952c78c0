// Which fields prove whose a request is, however they are spelled.
#pragma once

#include <string_view>

#include "evenkeel/http/fields.h"

namespace evenkeel {

/// Equal apart from ASCII case, and underscores count as dashes, as CGI and WSGI servers read them.
bool is_spelling_of(std::string_view a, std::string_view b);

/// As `names_credential`, for the names that its look at the last letter lets pass.
bool ends_as_credential(std::string_view name);

/// Whether a field of this name, in any spelling, holds a credential: `authorization`, the API keys
/// of clouds and gateways (`x-api-key`, `api-key`, `x-goog-api-key`, `ocp-apim-subscription-key`),
/// and whatever else ends as they do.
inline bool names_credential(std::string_view name) {
  const char last = name.empty() ? '\0' : static_cast<char>(name.back() | 0x20);
  return (last == 'y' || last == 'n' || last == 't') && ends_as_credential(name);
}

inline bool holds_credential(const Field& field) {
  switch (field.id) {
    case FieldId::authorization:
    case FieldId::proxy_authorization: return true;
    case FieldId::other: return names_credential(field.name());
    default: return false;
  }
}

}  // namespace evenkeel
