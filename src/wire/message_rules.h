// Rules about messages that hold in every version of HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel {

/// host[:port], where host is a name, an IPv4 address or a bracketed IPv6 address.
bool is_authority(std::string_view text);

/// The one content-length of a message. No list, no sign, no leading zeros.
std::optional<std::uint64_t> parse_length(std::string_view text);

/// Names with underscores that a backend might take for a field with dashes, which some servers
/// (CGI, WSGI) do: they would pass our own checks and headers by.
bool is_underscore_alias(std::string_view name);

/// Fields that decide about framing, routing, authentication, content or caching, which have no
/// place in a trailer (RFC 9110 6.5.1), and those that tell a backend who asks. Sorted out by name,
/// because some servers merge trailers into the header section; those that read an underscore as a
/// dash are reckoned with.
bool is_forbidden_in_trailers(std::string_view name);

}  // namespace evenkeel
