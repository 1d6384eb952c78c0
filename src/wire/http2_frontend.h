#pragma once

#include <memory>

#include "client_address.h"
#include "evenkeel/base/buffer.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Serves HTTP/2 on a connection until it ends. `received`: what was read already, including the
/// preface.
Task<void> serve_http2(std::unique_ptr<Socket> socket, const ClientAddress& client,
                       const ListenerConfig& config, FrontendCallbacks& callbacks,
                       ReadBuffer received);

}  // namespace evenkeel
