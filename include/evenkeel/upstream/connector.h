// Opens connections to one backend: tries its addresses in turn, with TLS if configured, within one
// deadline.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/net/tls.h"

namespace evenkeel {

struct ConnectorOptions {
  Duration connect_timeout = PoolTimeouts{}.connect;  ///< for all addresses, TLS included
  std::shared_ptr<const TlsClientContext> tls;        ///< null: in the clear
  std::string server_name;  ///< what the certificate must be for, and SNI where it is a name
  AlpnOffer alpn = AlpnOffer::http1;

  bool operator==(const ConnectorOptions&) const = default;
};

/// Connects to one backend. Thread: one worker's. Outlives its tasks.
class Connector {
 public:
  /// `addresses`: of the server; tried in turn, starting with the one that worked last. Without
  /// any, every attempt fails.
  Connector(Loop& loop, std::vector<Endpoint> addresses, ConnectorOptions options);
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// A connected socket, after the TLS handshake if there is one; its `tls()` has the result of
  /// ALPN. Errors: connect_failed, connect_timeout, tls_failed; overloaded if this process has no
  /// descriptor, memory or local port left (`Side::proxy`); all are `not_processed`.
  Task<Result<std::unique_ptr<Socket>>> connect() { return connect(options_.alpn); }
  /// Connects as `connect` does, but offers these protocols.
  Task<Result<std::unique_ptr<Socket>>> connect(AlpnOffer alpn);

 private:
  Loop& loop_;
  std::vector<Endpoint> addresses_;
  std::size_t preferred_ = 0;  // of addresses_
  ConnectorOptions options_;
  std::shared_ptr<TlsSessionCache> sessions_;
};

}  // namespace evenkeel
