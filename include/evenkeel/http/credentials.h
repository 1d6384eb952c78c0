// What proves whose a request is, however it is spelled: fields, and parameters of the query.
#pragma once

#include <string>
#include <string_view>

#include "evenkeel/base/byte_search.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

/// The field with which a backend knows evenkeel, in place of the client's credentials.
struct BackendCredential {
  std::string field = "authorization";  ///< lower case
  std::string value;                    ///< empty: the backend has no key

  bool empty() const { return value.empty(); }
  bool operator==(const BackendCredential&) const = default;
};

/// True if equal apart from ASCII case; underscores count as dashes, as CGI and WSGI servers read
/// them.
bool is_spelling_of(std::string_view a, std::string_view b);

/// Does the work of `names_credential` for names whose last letter does not rule it out.
bool ends_as_credential(std::string_view name);

/// True if a field of this name, in any spelling, holds a credential: `authorization`, the API keys
/// of clouds and gateways (`x-api-key`, `api-key`, `x-goog-api-key`, `ocp-apim-subscription-key`),
/// and whatever else ends as they do.
inline bool names_credential(std::string_view name) {
  const char last = name.empty() ? '\0' : static_cast<char>(name.back() | 0x20);
  return (last == 'y' || last == 'n' || last == 't') && ends_as_credential(name);
}

/// The subprotocols of a WebSocket: the one field that browsers can set there.
inline constexpr std::string_view subprotocol_field = "sec-websocket-protocol";

/// True if a key is among the subprotocols of a WebSocket.
bool lists_credential(std::string_view name, std::string_view value);

/// Adds the subprotocols that are no keys to a list.
void add_other_subprotocols(std::string_view subprotocols, std::string& to);

inline bool holds_credential(const Field& field) {
  switch (field.id) {
    case FieldId::authorization:
    case FieldId::proxy_authorization: return true;
    case FieldId::other:
      if (field.name_size == subprotocol_field.size() &&
          lists_credential(field.name(), field.value())) [[unlikely]]
        return true;
      return names_credential(field.name());
    default: return false;
  }
}

/// Does the work of `target_holds_credential` for a target with a query.
bool query_holds_credential(std::string_view target);
/// Does the work of `target_holds_secret` for a target with a query.
bool query_holds_secret(std::string_view target);

/// True if the target has a query. Inline and without a call: hardly any target of a request to a
/// model has a query.
inline bool has_query(std::string_view target) {
  const char* at = target.data();
  const char* const end = at + target.size();
  if (target.size() >= Bytes16::size) {
    for (; end - at > Bytes16::size; at += Bytes16::size) {
      if (Bytes16::load(at).equal_to('?') != 0) return true;
    }
    return Bytes16::load(end - Bytes16::size).equal_to('?') != 0;
  }
  while (at != end && *at != '?') ++at;
  return at != end;
}

/// True if the query of a request target has a parameter whose name, percent-encoded or not, is
/// that of a client's key: `key`, `api_key`, `access_token`.
inline bool target_holds_credential(std::string_view target) {
  return has_query(target) && query_holds_credential(target);
}

/// The target without these parameters.
std::string target_without_credentials(std::string_view target);

/// True if a log is not to show the query of a request target: it holds a credential, a password or
/// the signature of a signed URL (`sig`, `X-Amz-Signature`), as parameter or in an encoded one.
inline bool target_holds_secret(std::string_view target) {
  return has_query(target) && query_holds_secret(target);
}

/// The target with `***` for the values of these parameters.
std::string target_with_hidden_secrets(std::string_view target);

}  // namespace evenkeel
