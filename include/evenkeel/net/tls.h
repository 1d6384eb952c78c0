// What TLS is spoken by: a listener's policy, a pool's policy, and what a handshake agreed upon.
#pragma once

#include <cstdint>

namespace evenkeel {

/// Which protocols a connection to a backend offers (ALPN); in the clear nothing is offered.
enum class AlpnOffer : std::uint8_t { http1, http2, http2_or_http1 };

class TlsClient;

}  // namespace evenkeel
