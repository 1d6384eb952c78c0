// How a TLS handshake ended: what is counted, and what a refusal goes by.
#pragma once

#include <cstdint>

namespace evenkeel {

enum class TlsOutcome : std::uint8_t {
  ok,           ///< in full
  resumed,      ///< from a session ticket
  timeout,      ///< it took too long
  closed,       ///< the peer left
  not_tls,      ///< the peer spoke something else
  version,      ///< no version in common
  cipher,       ///< no cipher suite, group or signature in common
  alpn,         ///< no protocol in common
  certificate,  ///< the peer's is missing or not good
  alert,        ///< the peer refused
  overload,     ///< not begun: too many at a time
  error,        ///< anything else
};

inline constexpr int tls_outcome_count = static_cast<int>(TlsOutcome::error) + 1;

/// The stable word of an outcome, such as "not_tls".
const char* to_string(TlsOutcome outcome);

}  // namespace evenkeel
