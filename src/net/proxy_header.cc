#include "evenkeel/net/proxy_header.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {
namespace {

using Step = ProxyHeader::Step;
using namespace std::string_view_literals;

constexpr std::string_view signature = "\r\n\r\n\0\r\nQUIT\n"sv;
constexpr std::string_view first_word = "PROXY ";
constexpr std::size_t max_text_size = 107;  // line end included
constexpr std::size_t fixed_part = 16;      // of version 2
constexpr std::uint32_t max_size = Block::small;

constexpr ProxyHeader failed{};
constexpr ProxyHeader incomplete{.step = Step::more};

std::size_t number_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at])) << 8 |
         static_cast<unsigned char>(bytes[at + 1]);
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const bool padded = text.size() > 1 && text.front() == '0';
  return padded ? std::nullopt : parse_number<std::uint16_t>(text);
}

Endpoint endpoint_of(int family, const void* address, std::uint16_t port) {
  Endpoint endpoint;
  if (family == AF_INET) {
    auto& in = reinterpret_cast<sockaddr_in&>(endpoint.storage);
    std::memcpy(&in.sin_addr, address, sizeof in.sin_addr);
    endpoint.size = sizeof in;
  } else {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
    std::memcpy(&in6.sin6_addr, address, sizeof in6.sin6_addr);
    endpoint.size = sizeof in6;
  }
  endpoint.storage.ss_family = static_cast<sa_family_t>(family);
  endpoint.set_port(port);
  return endpoint;
}

std::optional<Endpoint> parse_endpoint(int family, std::string_view address,
                                       std::string_view port) {
  unsigned char bytes[sizeof(in6_addr)];
  const std::string terminated(address);
  const auto number = parse_port(port);
  if (terminated.find('\0') != std::string::npos || !number ||
      inet_pton(family, terminated.c_str(), bytes) != 1) {
    return std::nullopt;
  }
  return endpoint_of(family, bytes, *number);
}

/// Removes and returns the text up to the next space, which it drops.
std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

/// "PROXY TCP4 192.0.2.1 192.0.2.9 51000 443\r\n"
ProxyHeader parse_text(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, max_text_size).find("\r\n");
  if (end == std::string_view::npos) {
    return bytes.size() >= max_text_size ? failed : incomplete;
  }
  std::string_view line = bytes.substr(first_word.size(), end - first_word.size());
  ProxyHeader header{.step = Step::done, .size = end + 2};
  const std::string_view protocol = take_word(line);
  if (protocol == "UNKNOWN") return header;
  if (protocol != "TCP4" && protocol != "TCP6") return failed;
  const int family = protocol == "TCP4" ? AF_INET : AF_INET6;
  const std::string_view source = take_word(line);
  const std::string_view target = take_word(line);
  const std::string_view source_port = take_word(line);
  if (line.find(' ') != std::string_view::npos) return failed;
  header.source = parse_endpoint(family, source, source_port);
  if (!header.source || !parse_endpoint(family, target, line)) return failed;
  return header;
}

/// Checks the lengths of the extensions after the addresses; their contents are not used.
bool valid_extensions(std::string_view bytes) {
  while (!bytes.empty()) {
    if (bytes.size() < 3 || bytes.size() - 3 < number_at(bytes, 1)) return false;
    bytes.remove_prefix(3 + number_at(bytes, 1));
  }
  return true;
}

ProxyHeader parse_binary(std::string_view bytes) {
  if (bytes.size() < fixed_part) return incomplete;
  const auto version_and_command = static_cast<unsigned char>(bytes[12]);
  const auto family_and_protocol = static_cast<unsigned char>(bytes[13]);
  const std::size_t length = number_at(bytes, 14);
  constexpr unsigned char local = 0x20;
  constexpr unsigned char proxied = 0x21;
  if (version_and_command != local && version_and_command != proxied) return failed;
  if (fixed_part + length > max_size) return failed;

  std::size_t addresses = 0;
  switch (family_and_protocol) {
    case 0x00: break;                   // unspecified
    case 0x11: addresses = 12; break;   // TCP over IPv4
    case 0x21: addresses = 36; break;   // TCP over IPv6
    case 0x31: addresses = 216; break;  // a Unix stream, without an address
    default: return failed;
  }
  if (version_and_command == proxied && length < addresses) return failed;
  if (bytes.size() < fixed_part + length) return incomplete;

  ProxyHeader header{.step = Step::done, .size = fixed_part + length};
  if (version_and_command == local) return header;  // the rest is skipped
  const std::string_view block = bytes.substr(fixed_part, length);
  if (family_and_protocol != 0x00 && !valid_extensions(block.substr(addresses))) return failed;
  if (family_and_protocol == 0x11) {
    header.source =
        endpoint_of(AF_INET, block.data(), static_cast<std::uint16_t>(number_at(block, 8)));
  } else if (family_and_protocol == 0x21) {
    header.source =
        endpoint_of(AF_INET6, block.data(), static_cast<std::uint16_t>(number_at(block, 32)));
  }
  return header;
}

Error gone() {
  return {.fault = Fault::client_gone,
          .side = Side::client,
          .detail = "the peer closed the connection"};
}

}  // namespace

ProxyHeader parse_proxy_header(std::string_view bytes) {
  const auto begins = [bytes](std::string_view word) {
    const std::size_t count = std::min(bytes.size(), word.size());
    return bytes.substr(0, count) == word.substr(0, count);
  };
  if (begins(signature)) return bytes.size() < signature.size() ? incomplete : parse_binary(bytes);
  if (begins(first_word)) return bytes.size() < first_word.size() ? incomplete : parse_text(bytes);
  return failed;
}

Task<Result<Endpoint>> read_proxy_header(Socket& socket, Endpoint peer, Instant deadline) {
  const Block block = Block::take(Block::small);
  Watch& watch = socket.watch();
  while (true) {
    const ssize_t got = recv(socket.fd(), block.data(), block.size(), MSG_PEEK);
    if (got > 0) {
      const ProxyHeader header = parse_proxy_header({block.data(), static_cast<std::size_t>(got)});
      if (header.step == Step::failed) {
        co_return Error{.fault = Fault::bad_request,
                        .side = Side::client,
                        .detail = "the connection does not begin with a PROXY header"};
      }
      if (header.step == Step::done) {
        if (recv(socket.fd(), block.data(), header.size, 0) != static_cast<ssize_t>(header.size)) {
          co_return gone();
        }
        co_return header.source.value_or(peer);
      }
    }
    const bool would_block = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if ((got <= 0 && !would_block) || watch.peer_closed()) co_return gone();
    watch.mark_not_readable();  // the header stays in the socket until it is complete
    auto wake = co_await watch.until_readable(deadline);
    if (wake != Wake::ready) {  // expired or interrupted
      co_return Error{.fault = Fault::header_timeout,
                      .side = Side::client,
                      .detail = "the PROXY header did not arrive in time"};
    }
  }
}

}  // namespace evenkeel
