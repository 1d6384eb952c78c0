// The client side of HTTP: reads requests from a connection, passes them to a handler, writes the
// responses.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/wire/idle_list.h"

namespace evenkeel {

/// A request that was answered, or its connection closed, before it reached a handler; for counters
/// and the access log. `info` has the status and the bytes that were written.
struct Refusal {
  Fault fault;
  int status;  ///< 0: closed without a response
  std::string_view detail;
  std::string_view method;  ///< this and the next two: as far as they were parsed
  std::string_view host;
  std::string_view path;
  const RequestInfo& info;
};

/// The time in a drain for a new connection's first bytes, and for the rest of a request head.
inline constexpr Duration head_drain_timeout = std::chrono::seconds(1);
/// Bytes of responses in the kernel, for a client that reads slowly.
inline constexpr int max_unsent_bytes = 128 * 1024;

/// The worker's number for the client of a connection; 0: none.
using ClientNumber = std::uint16_t;

/// What a connection needs from its worker. Outlives its connections.
class FrontendCallbacks {
 public:
  virtual ~FrontendCallbacks() = default;
  /// The handler for the next request; held until that request has ended.
  virtual std::shared_ptr<Handler> plan() = 0;
  /// Called once the response of a refused request is written, or its connection given up.
  virtual void refused(const Refusal& refusal) = 0;
  /// True if responses carry `connection: close`, and HTTP/2 connections end after their requests.
  virtual bool draining() const = 0;
  /// True if HTTP/1 connections close between two requests. Holds only while `draining` does.
  virtual bool closes_idle() const { return draining(); }
  /// Connections between two requests, the one idle longest first, among which one of this client
  /// belongs. Waking one closes it.
  virtual IdleList& idle_connections(ClientNumber client) = 0;
  /// Wakes a connection with concurrent requests when a drain begins. Not needed without drains.
  virtual void watch_drain(Waiter&) {}
  /// A connection of a client has ended.
  virtual void closed(const ListenerConfig& listener, ClientNumber client) = 0;
};

/// Serves a connection until it ends: HTTP/2 if ALPN negotiated it or the client begins with its
/// preface (RFC 9113, section 3.3: prior knowledge), else HTTP/1.1 and 1.0. `config` and
/// `callbacks` outlive the task.
Task<void> serve_http(std::unique_ptr<Socket> socket, Endpoint peer, const ListenerConfig& config,
                      FrontendCallbacks& callbacks, ClientNumber client = 0);

/// Serves a connection as `serve_http` does, but HTTP/1.1 and 1.0 only.
Task<void> serve_http1(std::unique_ptr<Socket> socket, Endpoint peer, const ListenerConfig& config,
                       FrontendCallbacks& callbacks);

}  // namespace evenkeel
