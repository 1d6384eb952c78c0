// One stream of ext_proc: a request, and its response where it is observed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "epp/http_heads.h"
#include "epp/inflow.h"
#include "epp/messages.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// True if something learns from the answers of the pool's servers, or counts by them.
bool learns_from_answers(const PoolConfig& pool);

/// The answer to a data plane's call of Process. It makes a request of the messages that come, and
/// has it served. In place of a link, it carries the request itself: it tells the data plane the
/// backend, what has become of the head, and the body. What the data plane then tells of the
/// response is the response. A request that is answered without a backend is answered so there.
///
/// Thread: one worker's. Dropping it drops the request, and with it its place in a queue or its
/// slot.
class ProcessStream final : public Body, private Carrier {
 public:
  /// What outlives the stream.
  struct Context {
    Loop& loop;
    Handler& plan;
    const Config& config;
    const ListenerConfig& listener;
  };
  /// `call`: its body brings the messages; outlives the stream.
  ProcessStream(const Context& context, Request& call);
  ProcessStream(const ProcessStream&) = delete;
  ProcessStream& operator=(const ProcessStream&) = delete;
  ~ProcessStream() override;

  /// The next messages to the data plane.
  Task<Result<Chunk>> read() override;

 private:
  /// How the request's body comes.
  enum class BodyMode : std::uint8_t {
    duplex,    ///< in pieces, and goes back in pieces
    buffered,  ///< in one message, once the head was answered
    unseen,    ///< the request is picked for by its head
  };

  // Messages from the data plane.
  Task<void> read_messages();
  bool take(std::string_view bytes);
  void take(ext_proc::ProcessingRequest& message);
  void take_request_head(ext_proc::ProcessingRequest& message);
  void take_request_body(const ext_proc::HttpBody& body);
  void answer_unseen_bodies();
  void take_response_head(ext_proc::ProcessingRequest& message);
  void take_response_body(const ext_proc::HttpBody& body);
  void take_trailers(const ext_proc::ProcessingRequest& message);
  void input_ended();

  // The request.
  Result<Done> read_head();
  void begin_request(const ext_proc::ProcessingRequest& message);
  Task<void> serve();
  Task<Result<Response>> carry(Request& request, std::string_view endpoint) override;
  Task<void> send_request(Request& request, std::string_view endpoint);
  Task<Result<Done>> send_duplex(Request& request);
  Task<Result<Done>> send_buffered(Request& request, std::string_view endpoint);
  Result<Response> observed_response();
  Task<void> pass_answer();
  Task<void> answer_at_once();

  // Messages to the data plane.
  void write(const ext_proc::ProcessingResponse& message);
  void write_pick(const Request& request, std::string_view endpoint,
                  ext_proc::CommonResponse& common, ext_proc::ProcessingResponse& message) const;
  void write_pick_by_head(const Request& request, std::string_view endpoint);
  void write_pieces(std::string_view bytes, bool is_response, bool last);
  bool is_full() const;
  void end(GrpcStatus status, std::string_view message = {});

  Loop& loop_;
  Handler& plan_;
  const Config& config_;
  const ListenerConfig& listener_;
  Request& call_;

  ext_proc::HttpHeaders request_head_;
  ext_proc::HttpHeaders response_head_;
  std::optional<std::string> served_;  // which backend has answered, as the data plane says
  BodyMode request_mode_ = BodyMode::duplex;
  std::uint32_t unanswered_bodies_ = 0;  // messages with parts of one that is not seen
  bool edits_response_ = true;           // its body goes back in pieces
  bool sees_response_body_ = true;
  bool has_request_ = false;
  bool head_is_answered_ = false;
  bool is_picked_ = false;
  bool observes_ = false;
  int observed_status_ = 0;  // of the response, as the data plane tells; 0: it has told of none
  bool is_sent_ = false;
  bool has_response_head_ = false;
  bool is_unseen_ = false;  // the response
  bool input_has_ended_ = false;
  bool has_ended_ = false;
  std::optional<Error> send_failure_;

  std::string pending_;  // messages to the data plane
  std::string sending_;
  Fields status_;  // that ends the stream
  Signal written_;
  Signal room_for_request_;   // in `pending_`
  Signal room_for_response_;  // likewise
  Signal room_for_input_;
  Signal response_changed_;

  Inflow request_body_;
  Inflow response_body_;
  Request request_;
  Response response_;  // its body points into the request
  Task<void> sending_request_;
  Task<void> serving_;
  Task<void> reading_;
};

}  // namespace evenkeel
