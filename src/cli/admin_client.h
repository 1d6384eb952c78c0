// Asks a daemon over its admin API, for the verbs that people type.
#pragma once

#include <memory>
#include <string>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/fetch.h"

namespace evenkeel {

/// Where a daemon is, and what proves that we may change it.
struct AdminTarget {
  std::string address = "127.0.0.1:9901";  ///< host:port; http:// before it does no harm
  std::string token_file;                  ///< empty: none, which will do on the daemon's machine
};

/// Blocks. Thread: one.
class AdminClient {
 public:
  /// Errors: bad_request for what is wrong with the address or the token's file; another where the
  /// address is a name that does not resolve.
  static Result<std::unique_ptr<AdminClient>> open(const AdminTarget& target);
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  Result<Fetched> get(std::string path, Duration timeout);
  Result<Fetched> post(std::string path, std::string json, Duration timeout);

  /// As it is written in complaints.
  const std::string& address() const { return address_; }

 private:
  AdminClient(std::string address, ServerAccess access);
  Result<Fetched> ask(BackendClientRequest client_request, Duration timeout);

  std::string address_;
  Loop loop_;
  BackendClient client_;
};

/// `text` with all but RFC 3986's unreserved characters percent-encoded.
std::string percent_encoded(std::string_view text);

}  // namespace evenkeel
