// Rules for messages of every HTTP version.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// True if the text is host[:port] with a name, an IPv4 address or a bracketed IPv6 address.
bool is_authority(std::string_view text);

/// What a backend gets as the request's authority: what its pool says, the client's or, if it sent
/// none (HTTP/1.0), the backend's own address. An empty one is malformed for many HTTP/2 servers.
inline std::string_view authority_for_backend(const Request& request) {
  if (!request.backend_authority.empty()) return request.backend_authority;
  return request.authority.empty() ? request.info.outcome.backend : request.authority;
}

/// What a backend gets as the body of a request; null: nothing. What follows an upgrade is a
/// tunnel, which must not begin before the answer.
inline Body* body_to_send(const Request& request) {
  return request.upgrade.empty() ? request.body.get() : nullptr;
}

/// True if a request without a body says so by its length, as servers expect of this method.
inline bool declares_empty_body(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

/// True if a response has no body, whatever its head says (RFC 9110, section 6.4.1).
inline bool is_bodiless(std::string_view method, int status) {
  return method == "HEAD" || status == 204 || status == 304;
}

/// Sets the length that a response without a body declares; one with a body has that body's. True
/// if it has none by the request's method or its status.
inline bool declare_length(std::string_view method, Response& response) {
  const bool bodiless = is_bodiless(method, response.status);
  if (!bodiless) {
    response.declared_length.reset();
  } else if (response.body && !response.declared_length && response.status != 204) {
    response.declared_length = response.body->length();
  }
  return bodiless;
}

/// A content-length: no list, no sign, no leading zeros.
inline std::optional<std::uint64_t> parse_length(std::string_view text) {
  if (text.empty() || text.size() > 19 || (text.size() > 1 && text.front() == '0'))
    return std::nullopt;
  std::uint64_t length = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    length = length * 10 + static_cast<unsigned>(c - '0');
  }
  return length;
}

/// True if a backend might read the underscores of a name as dashes, as CGI and WSGI servers do:
/// such a field could bypass our checks and headers.
bool is_underscore_alias(std::string_view name);

/// True if a field must not be in a trailer: those for framing, routing, authentication, content or
/// caching (RFC 9110 6.5.1), and those that identify the client to a backend, credentials too. By
/// name, since some servers merge trailers into the header section; names with underscores count
/// too.
bool is_forbidden_in_trailers(std::string_view name);

/// Removes from a request's trailers the fields that only trusted proxies may send.
void remove_reserved(Fields& trailers, const RequestIdentity& identity);

}  // namespace evenkeel
