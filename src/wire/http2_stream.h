// A stream of an HTTP/2 session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"
#include "http2_message_check.h"
#include "http2_receive_buffer.h"
#include "http2_session.h"
#include "message_limit.h"

namespace evenkeel {

class Http2Section;
class UploadWaits;

/// One stream: what has come on it, and what is to be sent. A derived class is a request of a
/// frontend or of a backend link.
class Http2Stream : public Pooled {
 public:
  /// `budget`: of the client's connection, for a response; null: none.
  explicit Http2Stream(Http2Session& session, ConnectionBudget* budget = nullptr)
      : session_(session),
        check_(session.settings().side == Http2Guard::Side::server
                   ? Http2MessageCheck::Receives::request
                   : Http2MessageCheck::Receives::response),
        in_(*this, budget),
        arrived_(session.loop()),
        write_progress_(session.loop()) {}
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;
  virtual ~Http2Stream() = default;

  Http2Session& session() const { return session_; }
  std::int32_t id() const { return id_; }
  /// True if the session knows the stream, so that frames may be submitted.
  bool attached() const { return attached_; }
  /// Ends the stream's reads and writes with an error.
  void fail_with(Error error);
  /// Why it has failed; nothing: it has not.
  const std::optional<Error>& failure() const { return failure_; }

  // ---- in ----

  Http2ReceiveBuffer& in() { return in_; }
  const Http2ReceiveBuffer& in() const { return in_; }
  /// The next bytes of the peer's body; nothing if none have arrived. An error if the stream ended
  /// before the message.
  std::optional<Result<Chunk>> take();
  /// Waits until something arrives or the stream ends.
  Signal::Wait arrival(Instant deadline) { return arrived_.wait(deadline); }
  /// The limit that the header section exceeds; fields beyond it were not given to `field`.
  MessageLimit exceeded_limit() const { return exceeded_limit_; }
  bool over_limits() const { return exceeded_limit_ != MessageLimit::none; }

  // ---- out ----

  /// Sends a body as the peer's window allows: the only loop that moves bytes into HTTP/2, for
  /// requests and responses. `next` is the first read, which may have begun. `waits` gets how long
  /// it waits for the body, of which everything is written, and `waiting` counts it meanwhile;
  /// null: neither. Errors: the body's, write_timeout, or the stream's `failure`.
  Task<Result<Done>> pump(Body& body, Task<Result<Chunk>> next, Duration timeout,
                          UploadWaits* waits = nullptr, SharedCount* waiting = nullptr);
  /// Offers a chunk to nghttp2, which takes it in `read_data`.
  void set_chunk(const Chunk& chunk);
  /// Sends a response's head. `last`: there is no body; otherwise a `pump` must follow.
  void submit_response(std::unique_ptr<Http2Section> head, bool last);
  /// Sends the head of a 1xx response.
  void submit_interim(std::unique_ptr<Http2Section> head);
  /// Submits a request on a new stream, if stream ids are left.
  void submit_request(std::unique_ptr<Http2Section> head, bool last);
  /// True if everything that was offered is written, with the end of the message if offered.
  bool all_sent() const { return pending_.empty() && (!last_ || end_sent_); }
  bool end_sent() const { return end_sent_; }
  std::uint64_t sent() const { return sent_; }
  /// When bytes of the body were last sent.
  Instant last_progress() const { return last_progress_; }

  // ---- events, inside nghttp2's callbacks ----

  /// A field of the header section that is being read; the bytes are valid during the call.
  virtual void field(const Field& field) = 0;
  /// A header section is complete. `last`: the message ends with it.
  virtual void headers_complete(bool last) = 0;
  /// The stream is closed and detached. `by_peer`: by the peer's RST_STREAM.
  virtual void closed(std::uint32_t code, bool by_peer) = 0;
  /// The peer's message ends with what has arrived.
  void mark_remote_end() {
    in_.end();
    arrived_.raise();
  }

 protected:
  friend class Http2Session;
  friend struct Http2Callbacks;

  void arrived() { arrived_.raise(); }
  /// Sets the request that the peer's response answers.
  void expect_answer_to(Http2MessageCheck::RequestMethod method) { check_.answers(method); }
  bool has_trailers() const { return trailers_.size() > 0; }

  Fields trailers_;

 private:
  bool peer_lets_send() const;

  Http2Session& session_;
  Http2MessageCheck check_;
  std::int32_t id_ = -1;
  bool attached_ = false;
  bool deferred_ = false;
  bool last_ = false;
  bool end_sent_ = false;       // or waits to be written
  bool end_written_ = false;    // to what the socket takes
  bool invalid_ = false;        // nghttp2 found a frame invalid and resets the stream
  bool skips_section_ = false;  // far over the limits: the rest of the fields is not looked at
  MessageLimit exceeded_limit_ = MessageLimit::none;
  std::optional<std::uint32_t> reset_when_sent_;
  std::uint32_t section_fields_ = 0;
  std::size_t section_bytes_ = 0;
  Http2ReceiveBuffer in_;
  std::uint64_t sent_ = 0;
  Instant last_progress_{};
  std::string_view pending_;
  const Fields* pending_trailers_ = nullptr;
  std::optional<Error> failure_;
  Signal arrived_;
  Signal write_progress_;
};

}  // namespace evenkeel
