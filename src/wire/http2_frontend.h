#pragma once

#include <memory>

#include "client_name.h"
#include "evenkeel/base/bytes.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Serves HTTP/2 on a connection until it ends. `received`: what was read of it already, its
/// preface included.
Task<void> serve_http2(std::unique_ptr<Socket> socket, const ClientName& client,
                       const FrontendOptions& options, Host& host, ReadBuffer received);

}  // namespace evenkeel
