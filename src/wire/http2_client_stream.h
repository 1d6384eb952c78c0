// A request to a backend over HTTP/2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backend_exchange.h"
#include "evenkeel/base/loop.h"
#include "http2_guard.h"
#include "http2_stream.h"
#include "response_body.h"

namespace evenkeel {

/// Counts the streams that a link resets. Servers end a connection on which many are (nghttp2: 1000
/// at once, then 33 a second), and with it all other requests on it.
class ResetLimit {
 public:
  void count(Instant now) {
    if (!left_.take(now)) exceeded_ = true;
  }
  /// True once the link should get no new requests.
  bool exceeded() const { return exceeded_; }

 private:
  TokenBucket left_{500, 20};
  bool exceeded_ = false;
};

/// One request and its response.
class Http2ClientStream final : public Http2Stream, public Node {
 public:
  /// The parts of the link that its streams use. All outlive them.
  struct LinkParts {
    Http2Session& session;
    const LinkOptions& options;
    const SilenceLimit& silence;
    ResetLimit& resets;
    Node& streams;  ///< of the link
  };
  Http2ClientStream(const LinkParts& link, Request& request, bool tunnel);
  /// Cancels the request at the backend if it or its response is incomplete.
  ~Http2ClientStream() override;

  // ---- Http2Stream ----
  void field(const Field& field) override;
  void headers_complete(bool last) override;
  void closed(std::uint32_t code, bool by_peer) override;

  /// Sends the request. `first`: the first read of its body, if it has one.
  void submit(Task<Result<Chunk>> first);
  /// Ends a wait for `arrival`, so that the waiting coroutine checks the stream again.
  void wake_reader() { arrived(); }
  /// True if the final response's head has arrived.
  bool answered() const { return answered_; }
  /// Takes the response, whose body owns the stream. REQUIRES: answered().
  static Response take_response(std::unique_ptr<Http2ClientStream> stream);
  /// Takes the error of an upload that has failed, unless the backend ended the stream, which then
  /// has the error.
  std::optional<Error> take_upload_failure();
  /// The error of the request when its connection has ended. `link_was_used`: before, too.
  /// `pings_failed`: it was ended because the backend did not answer those.
  Error connection_lost(bool link_was_used, bool pings_failed) const;

  BackendExchange& exchange() { return exchange_; }

 private:
  class Body;

  void submit_head();
  void send_end();
  void handle_interim(bool last);
  void refuse(const char* detail, std::uint32_t code);
  bool near_deadline() const;
  void finish_handshake(Response& response);
  std::optional<std::uint64_t> body_length(Response& response) const;
  Task<Result<Done>> upload(evenkeel::Body& body, Task<Result<Chunk>> first);

  const LinkOptions& options_;
  ResetLimit& resets_;
  Request& request_;
  const bool tunnel_;  // asked for by extended CONNECT
  BackendExchange exchange_;
  int status_ = 0;
  bool answered_ = false;
  Fields fields_;
  std::optional<std::uint64_t> length_;
  Task<Result<Done>> upload_;
};

}  // namespace evenkeel
