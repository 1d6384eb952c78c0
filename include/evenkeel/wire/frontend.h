// The client's side of HTTP: one connection in, requests to a handler, answers back.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

/// What a listener asks of its clients. Durations: 0 is not "off"; use a large one.
struct FrontendOptions {
  std::string listener = "public";
  Duration header_timeout = std::chrono::seconds(10);  ///< from the first byte to the whole head
  Duration idle_timeout = std::chrono::seconds(75);    ///< between requests
  Duration body_timeout = std::chrono::seconds(60);    ///< between bytes of a request body
  Duration write_timeout = std::chrono::seconds(60);   ///< for a reader to take any bytes
  std::size_t header_bytes = 32 * 1024;                ///< of the head in all; <= 64 KiB
  std::size_t header_fields = 100;
  std::size_t uri_bytes = 8 * 1024;
  std::uint64_t body_bytes = 32 * 1024 * 1024;
  bool abort_on_half_close = true;  ///< a client that ends its sending has left; HTTP/1 only
  std::uint32_t streams = 128;      ///< requests at a time on one connection of HTTP/2
  std::vector<Cidr> trusted_proxies;
};

/// A request that was refused before a handler could see it; for counters and the access log.
struct Refusal {
  Fault fault;
  int status;  ///< 0: closed without an answer
  std::string_view detail;
  std::string_view method;  ///< as far as it was understood
  std::string_view path;
  const RequestInfo& info;
};

/// What a connection needs from the worker that it lives on. Outlives its connections.
class FrontendCallbacks {
 public:
  virtual ~FrontendCallbacks() = default;
  /// The handler of the request that is about to begin; held until that request has ended.
  virtual std::shared_ptr<Handler> plan() = 0;
  virtual void refused(const Refusal& refusal) = 0;
  /// No further request on a connection that is idle, and `connection: close` on answers.
  virtual bool draining() const = 0;
  /// Connections between two requests, the one that waits longest first. Waking one closes it.
  virtual WaiterList& idle_connections() = 0;
  /// Has a connection that carries several requests at a time woken when the drain begins. A host
  /// that never drains need not.
  virtual void watch_drain(Waiter&) {}
  /// A connection has ended.
  virtual void closed(const FrontendOptions& listener) = 0;
};

/// Serves a connection until it ends: HTTP/2 where ALPN has agreed on it or the client begins with
/// its preface (RFC 9113, section 3.3: prior knowledge), else HTTP/1.1 and 1.0. `options` and
/// `host` outlive the task.
Task<void> serve_http(std::unique_ptr<Socket> socket, Endpoint peer, const FrontendOptions& options,
                      FrontendCallbacks& callbacks);

/// As `serve_http`, but HTTP/1.1 and 1.0 only.
Task<void> serve_http1(std::unique_ptr<Socket> socket, Endpoint peer,
                       const FrontendOptions& options, FrontendCallbacks& callbacks);

}  // namespace evenkeel
