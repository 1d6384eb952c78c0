#include "evenkeel/base/tls_outcome.h"

namespace evenkeel {

const char* to_string(TlsOutcome outcome) {
  switch (outcome) {
    case TlsOutcome::ok: return "ok";
    case TlsOutcome::resumed: return "resumed";
    case TlsOutcome::timeout: return "timeout";
    case TlsOutcome::closed: return "closed";
    case TlsOutcome::not_tls: return "not_tls";
    case TlsOutcome::version: return "version";
    case TlsOutcome::cipher: return "cipher";
    case TlsOutcome::alpn: return "alpn";
    case TlsOutcome::certificate: return "certificate";
    case TlsOutcome::alert: return "alert";
    case TlsOutcome::overload: return "overload";
    case TlsOutcome::error: return "error";
  }
  return "error";
}

}  // namespace evenkeel
