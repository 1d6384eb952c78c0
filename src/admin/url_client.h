// A client of one URL, for servers that the daemon calls by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "admin/http_client.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/config/address.h"

namespace evenkeel {

/// Looks the name of the server up for each new connection, since it may have moved, and keeps the
/// connection. Redirects are not followed. Blocks.
///
/// Thread: one; `cancel`: any.
class UrlClient {
 public:
  struct Options {
    std::string url;      ///< of http or https
    std::string ca;       ///< file with authorities; empty: the system's
    std::string version;  ///< of the daemon, for the server
    std::size_t max_answer_bytes = 64UL * 1024;
  };
  explicit UrlClient(Options options);

  /// Sends a request. `fields`: further ones of its head, each with its line end. Errors: those of
  /// HttpClient, and of looking the name up.
  Result<HttpAnswer> get(std::string_view fields, Duration timeout);
  Result<HttpAnswer> post(std::string_view fields, std::string_view body, Duration timeout);
  /// Ends the request in progress, and all later ones; a look-up of the name ends first.
  void cancel() { client_.cancel(); }

 private:
  Result<HttpAnswer> send(const std::string& request, Duration timeout);
  Result<HttpAnswer> send_once(const std::string& request, Duration timeout);
  Result<Done> prepare();

  const Options options_;
  Address address_;
  std::string path_;
  std::string problem_;  // of the URL
  std::string fields_;   // that each request has
  HttpClient client_;
};

/// The URL without its query, which may hold a secret: for the log.
std::string without_query(const std::string& url);

/// The time after which a server may be called again, if its answer names one in seconds; at most
/// `limit`.
Duration retry_after_of(const HttpAnswer& answer, Duration limit);

}  // namespace evenkeel
