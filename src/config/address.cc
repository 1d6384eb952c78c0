#include "evenkeel/config/address.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/text.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_redis_database = 16'383;
constexpr std::string_view digits = "0123456789";

std::optional<std::uint16_t> parse_port(std::string_view text, std::string& why) {
  const auto port = parse_number<std::uint16_t>(text);
  if (!port) why = fmt::format("'{}' is not a port from 0 to 65535", text);
  return port;
}

bool is_host(std::string_view host, std::string& why) {
  constexpr std::size_t longest = 253;  // RFC 1035
  if (host.empty()) {
    why = "the host is missing";
  } else if (host.find(':') != host.npos) {
    if (parse_ip(host)) return true;
    why = fmt::format("'{}' is not an IPv6 address", host);
  } else if (host.find_first_not_of("0123456789.") == host.npos) {
    if (parse_ip(host)) return true;
    why = fmt::format("'{}' is not an IPv4 address", host);
  } else if (host.size() > longest || host.front() == '-' || host.front() == '.' ||
             host.find("..") != host.npos || !std::ranges::all_of(host, [](char c) {
               return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
             })) {
    why = fmt::format("'{}' is not a host name", host);
  } else {
    return true;
  }
  return false;
}

// Splits "host:port" and "[v6]:port"; a host alone has no port.
struct HostAndPort {
  std::string_view host;
  std::optional<std::string_view> port;
};

std::optional<HostAndPort> split(std::string_view text, std::string& why) {
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    const std::string_view after = close == text.npos ? "" : text.substr(close + 1);
    if (close == text.npos || (!after.empty() && !after.starts_with(':'))) {
      why = "expected [address]:port";
      return std::nullopt;
    }
    HostAndPort parts{text.substr(1, close - 1), std::nullopt};
    if (!after.empty()) parts.port = after.substr(1);
    if (parts.host.find(':') == parts.host.npos) {
      why = "only IPv6 addresses are written in brackets";
      return std::nullopt;
    }
    return parts;
  }
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return HostAndPort{text, std::nullopt};
  if (text.find(':', colon + 1) != text.npos) {
    why = "an IPv6 address needs brackets, \"[::1]:8080\"";
    return std::nullopt;
  }
  return HostAndPort{text.substr(0, colon), text.substr(colon + 1)};
}

/// The normal form of a host, but for a final dot: with it, the resolver tries no search domains.
std::string resolvable_host(std::string_view host) {
  std::string normal = normal_host(host);
  if (host.ends_with('.')) normal += '.';
  return normal;
}

}  // namespace

std::string to_string(const Address& address) {
  const std::string host = normal_host(address.host);
  return host.find(':') != host.npos ? fmt::format("[{}]:{}", host, address.port)
                                     : fmt::format("{}:{}", host, address.port);
}

std::optional<Address> parse_address(std::string_view text, std::string& why) {
  if (text.find("://") != text.npos) {
    why = "it has no scheme";
    return std::nullopt;
  }
  const auto parts = split(text, why);
  if (!parts) return std::nullopt;
  if (!parts->port) {
    why = "the port is missing";
    return std::nullopt;
  }
  const auto port = parse_port(*parts->port, why);
  if (!port) return std::nullopt;
  if (parts->host.empty() || parts->host == "*") return Address{"0.0.0.0", *port, false};
  if (!is_host(parts->host, why)) return std::nullopt;
  return Address{resolvable_host(parts->host), *port, false};
}

std::optional<Address> parse_backend_address(std::string_view text, std::string& why) {
  const std::size_t scheme_end = text.find("://");
  const bool is_url = scheme_end != text.npos;
  bool secure = false;
  if (is_url) {
    const std::string scheme = lower_case(text.substr(0, scheme_end));
    secure = scheme == "https";
    if (!secure && scheme != "http") {
      why = fmt::format("'{}' is not a scheme that is supported, only http and https are", scheme);
      return std::nullopt;
    }
    text.remove_prefix(scheme_end + 3);
    const std::size_t slash = text.find_first_of("/?#");
    if (slash != text.npos && text.substr(slash) != "/") {
      why = "it has a path; requests keep their own";
      return std::nullopt;
    }
    text = text.substr(0, slash);
    if (text.find('@') != text.npos) {
      why = "user and password are not supported";
      return std::nullopt;
    }
  }
  const auto parts = split(text, why);
  if (!parts) return std::nullopt;
  if (!parts->port && !is_url) {
    why = parts->host.find_first_not_of(digits) == parts->host.npos ? "the host is missing"
                                                                    : "the port is missing";
    return std::nullopt;
  }
  const auto port = parse_port(parts->port.value_or(secure ? "443" : "80"), why);
  if (!port || !is_host(parts->host, why)) return std::nullopt;
  if (*port == 0) {
    why = "a backend cannot have port 0";
    return std::nullopt;
  }
  return Address{resolvable_host(parts->host), *port, secure};
}

std::optional<Address> parse_name_server(std::string_view text, std::string& why) {
  const auto parts = split(text, why);
  if (!parts) return std::nullopt;
  const auto port = parse_port(parts->port.value_or("53"), why);
  if (!port) return std::nullopt;
  if (!parse_ip(parts->host)) {
    why = "a name server is given by its IP address";
    return std::nullopt;
  }
  if (*port == 0) {
    why = "a name server cannot have port 0";
    return std::nullopt;
  }
  return Address{resolvable_host(parts->host), *port};
}

bool is_host_field(std::string_view text, std::string& why) {
  if (text.find("://") != text.npos) {
    why = "it has no scheme";
    return false;
  }
  const auto parts = split(text, why);
  return parts && is_host(parts->host, why) && (!parts->port || parse_port(*parts->port, why));
}

bool Network::contains(const IpBytes& ip) const {
  const std::size_t whole = prefix_bits / 8;
  if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(whole), ip.begin())) {
    return false;
  }
  const unsigned rest = prefix_bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
  return (first[whole] & mask) == (ip[whole] & mask);
}

std::optional<Network> parse_network(std::string_view text, std::string& why) {
  const std::size_t slash = text.find('/');
  const auto ip = parse_ip(text.substr(0, slash));
  if (!ip) {
    why = fmt::format("'{}' is not an IP address", text.substr(0, slash));
    return std::nullopt;
  }
  const bool v4 = text.substr(0, slash).find(':') == text.npos;
  const unsigned most = v4 ? 32 : 128;
  const auto suffix = slash == text.npos ? std::string_view() : text.substr(slash + 1);
  const auto bits = slash == text.npos ? most : parse_number<unsigned>(suffix);
  if (!bits || *bits > most) {
    why = fmt::format("'/{}' is not a prefix length from /0 to /{}", suffix, most);
    return std::nullopt;
  }
  Network network{*ip, *bits + (128 - most), std::string{text}};
  IpBytes masked{};
  for (std::size_t i = 0; i < masked.size(); ++i) {
    const unsigned kept = std::clamp<unsigned>(
        network.prefix_bits - std::min(network.prefix_bits, static_cast<unsigned>(i) * 8), 0, 8);
    masked[i] = static_cast<std::uint8_t>((*ip)[i] & (0xff << (8 - kept)));
  }
  if (masked != *ip) {
    why = "it has bits set after the prefix";
    return std::nullopt;
  }
  return network;
}

std::optional<RedisAddress> parse_redis_address(std::string_view text, std::string& why) {
  constexpr std::string_view clear = "redis://";
  constexpr std::string_view tls = "rediss://";
  constexpr std::uint16_t default_port = 6379;
  RedisAddress address;
  const bool is_secure = text.starts_with(tls);
  if (!is_secure && !text.starts_with(clear)) {
    why = "it does not start with redis:// or rediss://";
    return std::nullopt;
  }
  text.remove_prefix(is_secure ? tls.size() : clear.size());
  if (text.find('@') != text.npos) {
    why = "it has a user or password: name these in 'user' and 'password_file'";
    return std::nullopt;
  }
  const std::size_t slash = text.find('/');
  if (slash != text.npos && slash + 1 < text.size()) {
    const auto database = parse_number<std::uint32_t>(text.substr(slash + 1));
    if (!database || *database > max_redis_database) {
      why = "behind the '/' stands the number of a database";
      return std::nullopt;
    }
    address.database = *database;
  }
  std::string server(text.substr(0, slash));
  const std::size_t colon = server.rfind(':');
  if (colon == server.npos || server.ends_with(']')) server += ":" + std::to_string(default_port);
  auto parsed = parse_backend_address(server, why);
  if (!parsed) return std::nullopt;
  address.server = std::move(*parsed);
  address.server.secure = is_secure;
  return address;
}

std::string to_string(const RedisAddress& address) {
  std::string text = (address.server.secure ? "rediss://" : "redis://") + to_string(address.server);
  return address.database == 0 ? text : text + "/" + std::to_string(address.database);
}

}  // namespace evenkeel
