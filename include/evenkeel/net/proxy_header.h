// The PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt): how a load balancer in front
// of a listener says whose connection it passes on.
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
  std::optional<Endpoint>
      source;  ///< who connected; none: the peer itself (LOCAL, UNKNOWN, UNSPEC)
};

/// Reads the header at the beginning of `bytes`. `more`: it is not all here.
ProxyHeader parse_proxy_header(std::string_view bytes);

/// Takes a header off a connection on which nothing was read yet, and not a byte more. Who the
/// client is: whom the header names, else `peer`. Errors: bad_request, client_gone, header_timeout.
Task<Result<Endpoint>> read_proxy_header(Socket& socket, Endpoint peer, Instant deadline);

}  // namespace evenkeel
