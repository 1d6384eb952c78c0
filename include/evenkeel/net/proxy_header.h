// The PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt): a load balancer in front of
// a listener sends the client's address at the start of each connection.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

struct ProxyHeader {
  enum class Step : std::uint8_t { done, more, failed };
  Step step = Step::failed;
  std::size_t size = 0;  ///< of the header, when done
  /// The client's address; none: the peer is the client (LOCAL, UNKNOWN, UNSPEC).
  std::optional<Endpoint> source;
};

/// Parses the header at the beginning of `bytes`. `more`: it is incomplete.
ProxyHeader parse_proxy_header(std::string_view bytes);

/// Reads the header from a connection of which nothing was read yet, and nothing beyond it. Returns
/// the client's address: the header's, or `peer` if it has none. Errors: bad_request, client_gone,
/// header_timeout.
Task<Result<Endpoint>> read_proxy_header(Socket& socket, Endpoint peer, Instant deadline);

}  // namespace evenkeel
