// A stream of an HTTP/2 session, with its flow control.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"
#include "http2_message_check.h"
#include "http2_session.h"
#include "message_limit.h"
#include "response_buffer.h"

namespace evenkeel {

class Http2Section;

/// One stream: received bytes that are not read yet, and what is to be sent. A derived class is a
/// request of a frontend or of a backend link.
class Http2Stream : public Pooled {
 public:
  /// `budget`: of the client's connection, for a response; null: none.
  explicit Http2Stream(Http2Session& session, ConnectionBudget* budget = nullptr)
      : session_(session),
        check_(session.receives()),
        charge_(budget),
        arrived_(session.loop()),
        write_progress_(session.loop()) {}
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;
  virtual ~Http2Stream() = default;

  Http2Session& session() { return session_; }
  std::int32_t id() const { return id_; }
  /// True if the session knows the stream, so that frames may be submitted.
  bool attached() const { return attached_; }

  // ---- in ----

  /// The next bytes of the peer's body; nothing if none have arrived. An error if the stream ended
  /// before the message.
  std::optional<Result<Chunk>> take();
  /// Waits until something arrives or the stream ends.
  Signal::Wait arrival(Instant deadline) { return arrived_.wait(deadline); }
  /// Goes back to the first byte; false when bytes are no longer held.
  bool rewind();
  /// True if `rewind` will succeed: the whole message is here, in one block.
  bool rewindable() const {
    return reads_ == 0 ? remote_ended_ && blocks_ <= 1 : reads_ == 1 && delivered_last_;
  }
  /// True if the peer has ended its message.
  bool received_all() const { return remote_ended_; }
  std::uint64_t received() const { return received_; }
  /// Ends the stream's reads and writes with an error.
  void fail_with(Error error);
  bool broken() const { return broken_.has_value(); }
  const Error& cause() const { return *broken_; }

  // ---- out ----

  /// Sends a body as the peer's window allows: the only loop that moves bytes into HTTP/2, for
  /// requests and responses. `next` is the first read, which may have begun. Errors: the body's,
  /// write_timeout, or the stream's `cause`.
  /// `waiting`: counts the stream while it waits for the body, of which everything is written;
  /// null: it does not count.
  Task<Result<Done>> pump(Body& body, Task<Result<Chunk>> next, Duration timeout,
                          SharedCount* waiting = nullptr);
  /// Offers a chunk to nghttp2, which takes it in `read_data`.
  void set_chunk(const Chunk& chunk);
  /// Sends a response's head. `last`: there is no body; otherwise a `pump` must follow.
  void submit_response(std::unique_ptr<Http2Section> head, bool last);
  /// Sends the head of a 1xx response.
  void submit_interim(std::unique_ptr<Http2Section> head);
  /// Submits a request on a new stream; false: no stream ids are left.
  bool submit_request(std::unique_ptr<Http2Section> head, bool last);
  /// Since when `pump` waits for the body, of which everything is written; `never`: it does not.
  Instant awaits_body_since() const { return awaits_body_since_; }
  /// How long `pump` had waited for the body before that.
  Duration awaited_body() const { return awaited_body_; }
  /// True if everything that was offered is written, with the end of the message if offered.
  bool all_sent() const { return pending_.empty() && (!last_ || end_sent_); }
  bool end_sent() const { return end_sent_; }
  std::uint64_t sent() const { return sent_; }

  // ---- events, inside nghttp2's callbacks ----

  /// A field of the header section that is being read; the bytes are valid during the call.
  virtual void field(const Field& field) = 0;
  /// A header section is complete. `last`: the message ends with it.
  virtual void headers_complete(bool last) = 0;
  /// The stream is closed and detached. `by_peer`: by the peer's RST_STREAM.
  virtual void closed(std::uint32_t code, bool by_peer) = 0;

  /// The limit that the header section exceeds; fields beyond it were not given to `field`.
  MessageLimit exceeded_limit() const { return exceeded_limit_; }
  bool over_limits() const { return exceeded_limit_ != MessageLimit::none; }
  /// The peer's message ends with what has arrived.
  void mark_remote_end() {
    remote_ended_ = true;
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
  bool append(std::string_view bytes);
  void return_taken();
  void adapt_window();
  void widen();
  void narrow();
  std::uint32_t next_block_size(bool tiny) const;

  static constexpr std::size_t max_blocks = 8;

  Http2Session& session_;
  Http2MessageCheck check_;
  std::int32_t id_ = -1;
  bool attached_ = false;
  bool remote_ended_ = false;
  bool delivered_last_ = false;
  bool rewound_ = false;
  bool deferred_ = false;
  bool last_ = false;
  bool end_sent_ = false;
  bool wide_ = false;
  bool narrowed_ = false;  // the window is, or becomes, the initial one again for good
  MessageLimit exceeded_limit_ = MessageLimit::none;
  bool invalid_ = false;  // nghttp2 found a frame invalid and resets the stream
  std::optional<std::uint32_t> reset_when_sent_;
  std::uint8_t reads_ = 0;  // chunks returned; stays at 2
  std::uint8_t first_block_ = 0;
  std::uint8_t blocks_ = 0;
  std::uint32_t section_fields_ = 0;
  std::size_t section_bytes_ = 0;
  std::size_t taken_ = 0;        // bytes of the last returned chunk, still held
  ResponseCharge charge_;        // for the wide window of a response
  std::uint32_t withholds_ = 0;  // bytes that are still to be read and not returned to the peer
  std::uint64_t received_ = 0;
  std::uint64_t received_before_ = 0;  // before `counts_since_`
  Instant counts_since_{};
  Instant last_fast_{};  // when the peer last sent as much as a window in a short time
  std::uint64_t sent_ = 0;
  Instant awaits_body_since_ = never;
  Duration awaited_body_{};
  std::array<ReadBuffer, max_blocks> in_;  // a ring
  std::string_view pending_;
  const Fields* pending_trailers_ = nullptr;
  std::optional<Error> broken_;
  Signal arrived_;
  Signal write_progress_;
};

}  // namespace evenkeel
