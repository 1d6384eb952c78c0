// How a request goes to a backend over HTTP/1.
#pragma once

#include <optional>

#include "backend_exchange.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

/// Sends the head of one request at once, and its body as the backend reads it, while the response
/// is read. One request at a time; whenever its body ends, the response's reader is interrupted.
class Http1Upload {
 public:
  /// All outlive it.
  Http1Upload(Socket& socket, const LinkOptions& options, BackendExchange& exchange)
      : socket_(socket), options_(options), exchange_(exchange) {}

  /// Sends the head and the first bytes of the body with one call. Errors: see `sent_nothing`.
  Result<Done> start(Request& request);
  /// Sends what comes from the client after an upgrade.
  void start_tunnel(Body& body) { running_ = send_tunnel(body); }
  /// Takes the result of an upload that has ended. That the backend has closed is no failure: it
  /// may have answered before.
  std::optional<Error> take_failure();
  void drop() {
    running_.drop();
    exchange_.upload.running = false;
  }

  /// True if `start` failed before anything was sent.
  bool sent_nothing() const { return !sent_; }
  /// True if the request has not been sent whole.
  bool incomplete() const { return failed_ || exchange_.upload.running; }
  /// When bytes of the body last moved.
  Instant last_progress() const { return last_progress_; }

 private:
  Task<Result<Done>> send_rest(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                               Request& request, bool chunked, bool more);
  Task<Result<Done>> send_body(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                               Request& request, bool chunked, bool more);
  Task<Result<Done>> send_tunnel(Body& body);
  Error fail(Error error);

  Socket& socket_;
  const LinkOptions& options_;
  BackendExchange& exchange_;
  bool sent_ = false;
  bool failed_ = false;
  Instant last_progress_{};
  Task<Result<Done>> running_;  // may end after the response's head
};

}  // namespace evenkeel
