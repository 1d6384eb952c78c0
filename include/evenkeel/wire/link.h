// The backend's side of HTTP: one connection out, requests sent, responses read.
#pragma once

#include <cstddef>
#include <memory>

#include "evenkeel/base/clock.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

/// What is asked of a backend.
struct LinkOptions {
  Duration first_byte_timeout = std::chrono::seconds(600);  ///< from the request's end to the head
  Duration idle_timeout = std::chrono::seconds(300);        ///< between bytes, either way
  std::size_t header_bytes = 64 * 1024;
  std::size_t header_fields = 256;

  bool operator==(const LinkOptions&) const = default;
};

/// One connection to a backend. Dropping it, or the body of a response that is not at its end,
/// closes the connection: the backend sees it and stops.
class Link {
 public:
  virtual ~Link() = default;
  /// Sends the request and returns when the response head is in; the request body goes on flowing
  /// while the response body is read. The response's views and body need the link to live.
  /// Errors with `replayable`: the backend has said that it did not look at the request (HTTP/2).
  /// With `crossed`: nothing came back on a link that had served before and ended at once: the
  /// backend closed an idle connection, not a request.
  virtual Task<Result<Response>> send(Request& request) = 0;
  /// How many more requests fit now. 0: this link is busy, or at its end.
  virtual std::size_t available_capacity() const = 0;
  /// Several requests may use it at a time.
  virtual bool multiplexed() const { return false; }
  /// Nothing has been heard that would end an idle link. Looks at the socket when `thoroughly`.
  virtual bool alive(bool probe_socket) = 0;
  /// Told when the peer ends an idle link; null for nobody.
  virtual void on_idle_close(Waiter* waiter) = 0;
};

std::unique_ptr<Link> make_http1_link(std::unique_ptr<Socket> socket, const LinkOptions& options);

/// Begins HTTP/2 on a connection and waits until the backend has told its settings: how many
/// requests it takes at a time, before the first is sent. Errors: backend_protocol, when it speaks
/// something else; connect_timeout.
Task<Result<std::unique_ptr<Link>>> open_http2_link(std::unique_ptr<Socket> socket,
                                                    LinkOptions options, Instant deadline);

}  // namespace evenkeel
