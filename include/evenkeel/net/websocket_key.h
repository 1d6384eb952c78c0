// The handshake of WebSockets over HTTP/1.1 (RFC 6455, section 4): the server proves that it has
// read the key.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// A value for `sec-websocket-key`: 16 random bytes in base64.
std::string make_websocket_key();

/// The `sec-websocket-accept` of a server that accepts a client's `sec-websocket-key`.
std::string websocket_accept(std::string_view key);

}  // namespace evenkeel
