// Host names and IP addresses in their normal form: the one in which they are compared and logged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// An IPv4 address as it is written in IPv6 (::ffff:a.b.c.d), or an IPv6 address; network byte
/// order.
using IpBytes = std::array<std::uint8_t, 16>;

/// Reads an address without brackets and port. Nothing: it is not an IP address.
std::optional<IpBytes> parse_ip(std::string_view text);

/// "192.0.2.1", also of an IPv4-mapped address, or "2001:db8::1" (RFC 5952).
std::string ip_text(const IpBytes& ip);

/// The host of an authority, without its port.
std::string_view host_of(std::string_view authority);

/// The normal form of a host: in lower case, without a final dot; an IP address as `ip_text`, and
/// without brackets. `storage` holds it where it differs from `host`.
std::string_view normal_host(std::string_view host, std::string& storage);
std::string normal_host(std::string_view host);

/// A host and its port, as a Host field has them. `host` is normal.
std::string authority_of(std::string_view host, std::uint16_t port, bool secure);

/// The normal form of an authority: `normal_host` of its host, and its port unless that is the
/// default of http or, with `secure`, of https.
std::string normal_authority(std::string_view authority, bool secure);

/// True if an authority is its own normal form.
bool is_normal_authority(std::string_view authority, bool secure);

}  // namespace evenkeel
