// Requests to a daemon's admin API, for the verbs that people type.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Where a daemon is, and what proves that it may be changed.
struct AdminTarget {
  std::string address;     ///< host:port, http://host:port or https://host:port
  std::string token_file;  ///< empty: none; the daemon's own machine needs none
  std::string ca_file;    ///< with https: what the daemon's certificate is verified against; empty:
                          ///< the system's authorities
  std::string cert_file;  ///< with https: this client's certificate, in PEM; empty: none
  std::string key_file;   ///< its private key; empty: in `cert_file`
  /// True if the scheme of `address` is from a file that may not be active yet: a daemon that does
  /// not speak it is sent the request in the other one. In the clear then only over loopback, and
  /// without the token.
  bool either_scheme = false;

  bool operator==(const AdminTarget&) const = default;
};

struct AdminResponse {
  int status = 0;
  std::string body;
  bool try_again = false;  ///< it has `retry-after`: the refusal is a matter of time
};

/// Keeps its connection between requests. Blocks. Thread: one.
///
/// Errors: bad_request for an address or a file that cannot be used, connect_failed,
/// connect_timeout, tls_failed, first_byte_timeout (no complete response in time), backend_closed,
/// backend_protocol (no HTTP, or a response larger than `max_response_bytes`).
class AdminClient {
 public:
  static constexpr std::size_t max_response_bytes = 64 * 1024 * 1024;  ///< 60 000 backends

  /// Resolves the name and reads the files; connects with the first request.
  static Result<std::unique_ptr<AdminClient>> open(const AdminTarget& target);
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;
  ~AdminClient();

  Result<AdminResponse> get(const std::string& path, Duration timeout);
  /// Never processed twice: on a connection of its own.
  Result<AdminResponse> post(const std::string& path, const std::string& body, Duration timeout);

  /// host:port, for messages.
  const std::string& address() const;

 private:
  class Impl;
  explicit AdminClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evenkeel
