// How a TLS handshake ended: the label of its counter and the reason in the log.
#pragma once

#include <cstdint>

namespace evenkeel {

enum class TlsOutcome : std::uint8_t {
  ok,           ///< a full handshake
  resumed,      ///< resumed from a session ticket
  timeout,      ///< took too long
  closed,       ///< the peer closed the connection
  not_tls,      ///< the peer sent something other than TLS
  version,      ///< no version in common
  cipher,       ///< no cipher suite, group or signature in common
  alpn,         ///< no protocol in common
  certificate,  ///< the peer's certificate is missing or not trusted
  alert,        ///< the peer sent an alert
  overload,     ///< not started: too many handshakes at a time
  error,        ///< anything else
};

inline constexpr int tls_outcome_count = static_cast<int>(TlsOutcome::error) + 1;

/// The stable word of an outcome, such as "not_tls".
const char* to_string(TlsOutcome outcome);

}  // namespace evenkeel
