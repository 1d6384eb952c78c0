// One client connection of HTTP/1.1 or 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "client_address.h"
#include "evenkeel/wire/frontend.h"
#include "head_parser.h"
#include "http1_message.h"
#include "http1_request_body.h"
#include "http1_transport.h"
#include "response_buffer.h"

namespace evenkeel {

/// Serves the requests of one client connection, one after the other. Thread: its loop's.
class Http1Connection final : public Pooled, public InterimHandler {
 public:
  Http1Connection(std::unique_ptr<Socket> socket, const ClientAddress& client,
                  const ListenerConfig& config, FrontendCallbacks& callbacks)
      : config_(config),
        callbacks_(callbacks),
        client_(client),
        budget_(config.limits.response_buffer_bytes) {
    transport_.socket = std::move(socket);
    transport_.socket->limit_unsent(max_unsent_bytes);
  }
  ~Http1Connection() override {
    if (transport_.socket != nullptr) callbacks_.closed(config_, client_.number());
  }

  /// Serves the connection until it ends. With `detects_http2`, a client that sends the HTTP/2
  /// preface is served over HTTP/2.
  static Task<void> serve(std::unique_ptr<Http1Connection> self, bool detects_http2);

  void interim(int status, const Fields& fields) override;

 private:
  /// What has come on a connection that waits for a request: the beginning of one, or its end.
  enum class Arrival : std::uint8_t { request, nothing, end };
  enum class HeadOutcome : std::uint8_t { done, failed, gone, expired };
  /// What follows a response: another request; a close that lets the client read the response
  /// first; or an immediate close, because the response is incomplete or the client has left.
  enum class Next : std::uint8_t { keep, linger, close };

  Loop& loop() { return transport_.loop(); }
  Watch& watch() { return transport_.watch(); }
  Socket& socket() { return *transport_.socket; }

  Arrival receive();
  Task<Next> exchange(Instant started);
  Task<void> continue_as_http2();
  Task<std::optional<bool>> detect_http2(Instant started);
  Instant limit_in_drain(Instant deadline);
  Task<HeadOutcome> read_head(HeadParser& parser, Instant deadline);
  std::optional<HeadOutcome> parse_buffered(HeadParser& parser);
  Task<HeadOutcome> read_rest_of_head(HeadParser& parser, Instant deadline);
  bool closes_silently(HeadOutcome outcome, HeadParser& parser, RequestInfo& info);
  std::optional<Error> check_head(HeadOutcome outcome, HeadParser& parser, Request& request,
                                  Http1MessageInfo& message);
  Http1RequestBody* add_body(Request& request, const Http1MessageInfo& message);
  Task<Next> refuse(Error error, const Head& head, Request& request);
  Task<Next> respond(Request& request, Response& response, bool keep_alive);
  Task<Next> write_whole(RequestInfo& info, const Response& response, const Framing& framing,
                         std::string_view body, bool close);
  Task<Next> finish_writing(Task<Result<Done>> writing, RequestInfo& info, Framing framing,
                            std::size_t body_size, bool close);
  Next end_writing(const Result<Done>& written, RequestInfo& info, const Framing& framing,
                   std::size_t body_size, bool close);
  Task<Next> pump(Request& request, Response& response, Framing framing, bool close,
                  Task<Result<Chunk>> next);
  Next abort(RequestInfo& info, const Error& error, const Framing& framing);
  Task<Next> after_response(Http1RequestBody* body, Next next);
  Task<Next> drain(Http1RequestBody& body);
  HeadWriter& begin_head();
  Task<void> linger();

  void interrupt_wait() { watch().interrupt(); }

  Http1Transport transport_;
  const ListenerConfig& config_;
  FrontendCallbacks& callbacks_;
  std::uint8_t minor_version_ = 1;
  bool served_ = false;
  bool timed_out_ = false;  // the client sent the last request too slowly
  ClientAddress client_;
  ConnectionBudget budget_;
  // The entry in the list of idle connections, or of those that a drain wakes.
  MethodEvent<IdleWaiter, &Http1Connection::interrupt_wait> idle_{*this};
};

}  // namespace evenkeel
