// The backend side of HTTP: sends requests on a connection and reads their responses.
#pragma once

#include <cstddef>
#include <memory>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

/// Timeouts towards a backend and limits for its responses.
struct LinkOptions {
  /// The time from the request's end to the head and, for a body of unannounced length, to its
  /// first byte.
  Duration first_byte_timeout = PoolTimeouts{}.first_byte;
  Duration idle_timeout = PoolTimeouts{}.idle;  ///< between later bytes, and those of an upload
  std::size_t header_bytes = 64 * 1024;
  std::size_t header_fields = 256;
  /// HTTP/2: how long a backend with open requests may send nothing before it is pinged, and how
  /// long it may take to answer.
  Duration ping_after = std::chrono::seconds(10);
  Duration ping_timeout = std::chrono::seconds(10);

  bool operator==(const LinkOptions&) const = default;
};

/// One connection to a backend, closed by the destructor. Dropping a response body before its end
/// closes the connection (HTTP/1) or resets the stream (HTTP/2), so that the backend stops.
class Link {
 public:
  virtual ~Link() = default;
  /// Sends the request and returns with the response's head; the request body continues to flow
  /// while the response body is read. The link must outlive the response. Errors with
  /// `not_processed`: the backend said that it did not act on the request (HTTP/2). With
  /// `idle_close_race`: a reused link ended at once without a response, most likely because the
  /// backend was closing an idle connection. With `awaited_client`: the backend ended the request
  /// when it had waited for 100 ms or more for the next bytes of its body.
  virtual Task<Result<Response>> send(Request& request) = 0;
  /// How many more requests it takes now. 0: it is busy or has ended.
  virtual std::size_t available_capacity() const = 0;
  /// True if several requests may use the link at a time.
  virtual bool multiplexed() const { return false; }
  /// True if the link is usable as far as the loop has seen; with `ask_kernel`, a system call
  /// checks for a close that the loop has not seen yet.
  virtual bool alive(bool ask_kernel) = 0;
  /// True if the backend has ended the link after a GOAWAY without an error, or for too much of it
  /// (ENHANCE_YOUR_CALM), so that what this cut off says nothing of it. A stream that the backend
  /// has reset before was not cut off by that.
  virtual bool ended_in_order() const { return false; }
  /// Sets the waiter to wake when the peer closes an idle link; null: none.
  virtual void on_idle_close(Waiter* waiter) = 0;
  /// The backend may be dead: from now on its requests fail after that much silence, if not before
  /// (`Duration::max()`: no longer), and HTTP/2 pings it now. A link that is idle is not affected.
  virtual void suspect(Duration max_silence) = 0;
};

std::unique_ptr<Link> make_http1_link(std::unique_ptr<Socket> socket, const LinkOptions& options);

/// Starts HTTP/2 on a connection and waits for the backend's SETTINGS, which limit the concurrent
/// requests. Errors: backend_protocol if the backend does not speak HTTP/2; connect_timeout.
Task<Result<std::unique_ptr<Link>>> open_http2_link(std::unique_ptr<Socket> socket,
                                                    LinkOptions options, Instant deadline);

}  // namespace evenkeel
