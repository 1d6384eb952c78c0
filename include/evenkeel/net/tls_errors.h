// What OpenSSL's error codes mean, for those that speak TLS through Asio.
#pragma once

#include "evenkeel/base/tls_outcome.h"

namespace evenkeel {

/// Why a handshake with a server failed: `not_tls` (it answered in the clear), `certificate` (it is
/// not trusted), or `error` (anything else). `code`: of OpenSSL's error queue. Thread: any.
TlsOutcome client_handshake_outcome(unsigned long code);

}  // namespace evenkeel
