// A client connection of HTTP/2 and its requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "client_address.h"
#include "evenkeel/wire/frontend.h"
#include "http2_message.h"
#include "http2_session.h"
#include "http2_stream.h"
#include "response_buffer.h"

namespace evenkeel {

class Http2Frontend;

/// One request and its response.
class Http2ServerStream final : public Http2Stream, public InterimHandler, public Node {
 public:
  explicit Http2ServerStream(Http2Frontend& owner);
  ~Http2ServerStream() override { task_.drop(); }

  void field(const Field& field) override;
  void headers_complete(bool last) override;
  void closed(std::uint32_t code, bool by_peer) override;
  void interim(int status, const Fields& fields) override;

 private:
  friend class Http2Frontend;
  class RequestBody;

  Http2Frontend& owner_;
  Http2RequestHead head_;
  Request request_;
  bool head_done_ = false;
  bool begun_ = false;
  bool response_begun_ = false;
  bool retired_ = false;
  Task<void> task_;
};

/// One client connection of HTTP/2. Thread: its loop's.
class Http2Frontend final : public Http2Side, public Pooled {
 public:
  Http2Frontend(std::unique_ptr<Socket> socket, const ClientAddress& client,
                const ListenerConfig& config, FrontendCallbacks& callbacks);
  ~Http2Frontend() override;

  /// Serves the connection until it ends. `received`: what was read already, with the preface.
  static Task<void> serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received);

 private:
  friend class Http2ServerStream;

  // ---- Http2Side ----
  Http2Stream* accept_stream() override;
  void on_event(Http2Event event) override;
  void input_processed() override;
  std::optional<Instant> check_deadlines() override;

  Loop& loop() { return session_.loop(); }
  Watch& watch() { return session_.socket().watch(); }
  void headers_complete(Http2ServerStream& stream, bool last);
  bool refuse_trailers(Http2ServerStream& stream);
  void stream_closed(Http2ServerStream& stream, std::uint32_t code, bool by_peer);
  void report_refused(Http2ServerStream& stream, Fault fault, std::string_view detail);
  void report_flood(std::string_view detail);
  Instant head_deadline(Instant begun) const;
  Task<void> exchange(Http2ServerStream& stream);
  Task<Result<Done>> respond(Http2ServerStream& stream, Response& response);
  void submit_head(Http2ServerStream& stream, const Response& response, bool last);
  static void finish_handshake(Request& request, Response& response);
  std::optional<Error> check_head(Http2ServerStream& stream);
  Response refuse(Http2ServerStream& stream, const Error& error);
  Task<void> discard_rest(Http2ServerStream& stream);
  void finish(Http2ServerStream& stream);
  void retire(Http2ServerStream& stream);
  void destroy_retired();
  void become_idle();
  void drop_streams();
  void begin_drain();
  void send_final_goaway();
  void begin_request(RequestInfo& info) const;

  /// Ends the connection if it is idle.
  void close_idle() {
    close_if_idle_ = true;
    watch().interrupt();
  }

  const ListenerConfig& config_;
  FrontendCallbacks& callbacks_;
  const ClientAddress client_;
  ConnectionBudget budget_;
  Http2Session session_;
  const TlsConnectionInfo* const tls_;
  bool settings_received_ = false;
  bool close_if_idle_ = false;
  bool draining_ = false;
  bool final_goaway_sent_ = false;
  std::uint32_t active_ = 0;
  Instant opened_;
  Instant draining_since_{};
  Instant headers_started_at_{};
  Http2Stream* section_ = nullptr;  // whose header section is being read
  Node streams_;
  Node retired_;  // destroyed when none of them runs
  std::vector<Http2ServerStream*>
      begun_;  // whose heads are complete, to start in `input_processed`
  MethodTimer<&Http2Frontend::close_idle> idle_timer_{*this};
  MethodEvent<IdleWaiter, &Http2Frontend::close_idle> idle_{*this};
  MethodWaiter<&Http2Frontend::begin_drain> drain_{*this};
  MethodWaiter<&Http2Frontend::destroy_retired> retired_waiter_{*this};
};

}  // namespace evenkeel
