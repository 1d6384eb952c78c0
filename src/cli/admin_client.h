// A client of a daemon's admin API.
#pragma once

#include <memory>
#include <string>

#include "cli/admin_target.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {

/// Blocks. Thread: one.
class AdminClient {
 public:
  /// Errors: bad_request if the address or the token file is invalid; another fault if the host
  /// name has no address.
  static Result<std::unique_ptr<AdminClient>> open(const AdminTarget& target);
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  Result<Fetched> get(std::string path, Duration timeout);
  Result<Fetched> post(std::string path, std::string json, Duration timeout);

  /// For messages: host:port.
  const std::string& address() const { return address_; }

 private:
  AdminClient(std::string address, ServerAccess access);
  Result<Fetched> fetch(BackendClientRequest client_request, Duration timeout);

  std::string address_;
  Loop loop_;
  BackendClient client_;
};

/// `text` with all but RFC 3986's unreserved characters percent-encoded.
std::string percent_encoded(std::string_view text);

}  // namespace evenkeel
