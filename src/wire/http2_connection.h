// One HTTP/2 connection, whichever side we are on: frames in and out through nghttp2, streams with
// their flow control, and one write for all that a turn of the loop has to say.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/socket.h"
#include "http2_guard.h"

namespace evenkeel {

class Http2HeaderBlock;
class Http2Stream;

/// What a connection is configured with. Windows in bytes, of RFC 9113, section 6.9.
struct Http2Settings {
  Http2Guard::Side side;
  std::uint32_t streams = 128;                    ///< that the peer may have open
  std::uint32_t stream_window = 64 * 1024;        ///< to begin with
  std::uint32_t wide_stream_window = 256 * 1024;  ///< of a stream whose reader keeps up
  std::uint32_t connection_window = 1024 * 1024;
  std::size_t header_bytes = 32 * 1024;  ///< names, values and 32 for each field
  std::size_t header_fields = 100;
  Duration write_timeout = std::chrono::seconds(60);
};

class Http2Connection : public Pooled {
 public:
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;
  virtual ~Http2Connection();

  Loop& loop() { return socket_->loop(); }
  Socket& socket() { return *socket_; }
  nghttp2_session* session() { return session_; }

  /// Has what is queued sent at the end of this step of the loop.
  void want_flush() {
    if (flush_wanted_) return;
    flush_wanted_ = true;
    loop().wake_soon(flush_);
  }
  /// Bytes of a message were taken out of a stream's buffer: lets the peer send more.
  void consumed(Http2Stream& stream, std::size_t size);
  /// Tells the peer why, sends what is queued, and ends.
  void fail(std::uint32_t code, const char* detail);
  bool ended() const { return ended_; }

 protected:
  Http2Connection(std::unique_ptr<Socket> socket, const Http2Settings& settings);

  /// Sends the first frames. Call once, after construction.
  void open();
  /// Reads until the connection is at its end. `received`: what was read of it before.
  Task<void> run(ReadBuffer received);
  /// Detaches a stream from the session; frames on it are of no interest any more.
  void detach(Http2Stream& stream);
  /// As `forget`, and tells the peer.
  void reset(Http2Stream& stream, std::uint32_t code);
  /// As `reset`, when our last frame on the stream has gone: it would be dropped otherwise. Then
  /// `stream_closed` is called.
  void reset_when_sent(Http2Stream& stream, std::uint32_t code);
  void ping();
  /// The last of our GOAWAYs: streams above the newest are ignored from now on.
  void submit_final_goaway();
  /// Ends `run`; the peer is told nothing more.
  void end();
  /// Closes so that what was sent last arrives.
  Task<void> linger();
  bool ping_unanswered() const { return ping_unanswered_; }
  /// The table of HPACK learns again what it may have lost; asked once for each message.
  bool should_refresh_hpack() { return messages_++ % 64 == 0; }
  /// Of our own making: how many are open, whether there may be more, and how many at a time.
  std::uint32_t open_streams() const { return open_streams_; }
  bool may_open_streams() const;
  std::uint32_t streams_allowed() const;
  /// When a part of a message was last read.
  Instant last_message() const { return last_message_; }
  /// When anything was last read.
  Instant last_read_at() const { return last_read_at_; }
  bool settings_acknowledged() const { return settings_acknowledged_; }
  const char* failure() const { return failure_; }

  // What the sides do differently. Called while the library has the floor: nothing here may call
  // back into `run` or destroy a stream that has not been forgotten.

  /// A header section begins on a stream that has none yet; null refuses it.
  virtual Http2Stream* begin_message(std::int32_t id) = 0;
  /// A header section is complete. `last`: nothing follows it.
  virtual void headers_done(Http2Stream& stream, bool last) = 0;
  /// A header section is so large that its stream was reset; it is detached already.
  virtual void headers_too_large(Http2Stream& stream) = 0;
  /// The library has closed a stream; it is detached already.
  virtual void stream_closed(Http2Stream& stream, std::uint32_t code, bool by_peer) = 0;
  virtual void goaway_received(std::int32_t last_stream, std::uint32_t code) = 0;
  virtual void settings_received() {}
  virtual void ping_answered() {}
  /// All that was read has been handled; streams may run and be destroyed now.
  virtual void after_reading() {}
  /// Until when `run` may wait for something to read; asked anew before each wait.
  virtual Instant deadline() = 0;
  /// The deadline has passed, or somebody interrupted the wait. False: the end.
  virtual bool continue_after_wait(bool expired) = 0;
  /// What the peer did to end the connection, for the log.
  virtual void on_violation(const Http2Guard::Violation&) {}

 private:
  friend class Http2Stream;
  friend struct Http2Callbacks;

  bool feed(std::string_view bytes);
  bool feed_nghttp2(std::string_view bytes);
  bool buffer_frame_bytes(std::string_view bytes, std::size_t& at, std::size_t wanted);
  bool session_finished() const;
  bool alive(std::int32_t stream) const;
  bool check_verdict(const Http2Guard::Verdict& verdict);
  void receive_data(Http2Stream* stream, std::string_view bytes);
  void flush();
  bool fill();
  Task<void> write_rest(Task<Result<Done>> writing);
  static nghttp2_data_provider body_source();
  int submit_trailers(Http2Stream& stream);
  void send_goaway(std::uint32_t code, const char* detail);

  void flush_wanted() {
    flush_wanted_ = false;
    flush();
  }

  std::unique_ptr<Socket> socket_;
  Http2Settings settings_;
  nghttp2_session* session_ = nullptr;
  Http2Guard guard_;
  MethodWaiter<&Http2Connection::flush_wanted> flush_{*this};
  ReadBuffer in_;
  Block out_;
  std::uint32_t out_size_ = 0;
  Task<void> writing_;
  // Of the frame whose header or payload is being read.
  std::array<char, Http2FrameHeader::size + Http2Guard::max_inspected_bytes> head_bytes_{};
  std::uint8_t head_size_ = 0;
  std::uint32_t payload_left_ = 0;
  std::uint8_t magic_left_ = 0;
  bool flush_wanted_ = false;
  bool ended_ = false;
  std::optional<Http2Guard::Violation> violation_;
  std::int32_t reset_by_peer_ = 0;  // the stream of the last RST_STREAM that came
  bool ping_unanswered_ = false;
  bool settings_acknowledged_ = false;
  std::uint32_t open_streams_ = 0;
  std::uint32_t messages_ = 0;  // whose heads we sent
  Instant last_read_at_{};
  Instant last_message_{};
  const char* failure_ = "the connection has ended";
};

/// One stream: what has come and was not read yet, and what is on its way out.
class Http2Stream : public Pooled {
 public:
  explicit Http2Stream(Http2Connection& connection)
      : connection_(connection), arrived_(connection.loop()), write_progress_(connection.loop()) {}
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;
  virtual ~Http2Stream() = default;

  Http2Connection& connection() { return connection_; }
  std::int32_t id() const { return id_; }
  /// The session knows it: frames may be submitted.
  bool attached() const { return attached_; }

  // ---- in ----

  /// What there is of the peer's body; nothing when it has to be waited for. An error once the
  /// stream is at an end that is not the message's.
  std::optional<Result<Chunk>> take();
  /// Resumes when something came, or the stream ended.
  Signal::Wait arrival(Instant deadline) { return arrived_.wait(deadline); }
  /// Goes back to the first byte; false when bytes have been let go.
  bool rewind();
  /// The peer has ended its message.
  bool received_all() const { return remote_ended_; }
  std::uint64_t received() const { return received_; }
  /// Why no more comes; set before the stream is told.
  void fail_with(Error error);
  bool broken() const { return broken_.has_value(); }
  const Error& cause() const { return *broken_; }

  // ---- out ----

  /// Sends a body, at the pace of the peer's window: the only loop that moves bytes into HTTP/2,
  /// a request's as well as a response's. `next` is the first read, which may have begun. Errors:
  /// of the body, or write_timeout and `broken`'s of the stream.
  Task<Result<Done>> pump(Body& body, Task<Result<Chunk>> next, Duration timeout);
  /// Puts a chunk in the place from which the library takes it.
  void set_chunk(const Chunk& chunk);
  /// Has a response's head sent; `last`: and nothing else. Otherwise a `pump` must follow.
  void submit_response(const Http2HeaderBlock& head, bool last);
  /// As `submit_response`, for a request, on a stream that is new; false: no stream is left.
  bool submit_request(const Http2HeaderBlock& head, bool last);
  /// All that was offered is on its way, the end of the message too where that was offered.
  bool all_sent() const { return pending_.empty() && (!last_ || end_sent_); }
  bool end_sent() const { return end_sent_; }
  std::uint64_t sent() const { return sent_; }

  // ---- header sections ----

  /// A field of the section that is being read; the bytes are valid during the call.
  virtual void field(std::string_view name, std::string_view value) = 0;
  /// The section is larger than `Http2Settings` allow; what exceeds them was not given to `field`.
  bool over_limits() const { return over_limits_; }
  /// The peer's message ends with what has come.
  void mark_remote_end() {
    remote_ended_ = true;
    arrived_.raise();
  }

 protected:
  friend class Http2Connection;
  friend struct Http2Callbacks;

  void arrived() { arrived_.raise(); }
  bool has_trailers() const { return trailers_.size() > 0; }

  Fields trailers_;

 private:
  bool append(std::string_view bytes);

  static constexpr std::size_t max_blocks = 8;

  Http2Connection& connection_;
  std::int32_t id_ = -1;
  bool attached_ = false;
  bool remote_ended_ = false;
  bool delivered_last_ = false;
  bool rewound_ = false;
  bool deferred_ = false;
  bool last_ = false;
  bool end_sent_ = false;
  bool wide_ = false;
  bool over_limits_ = false;
  bool invalid_ = false;  // the library found fault with a frame, and resets it
  std::optional<std::uint32_t> reset_when_sent_;
  std::uint8_t reads_ = 0;  // chunks given out; stays at 2
  std::uint8_t first_block_ = 0;
  std::uint8_t blocks_ = 0;
  std::uint32_t section_fields_ = 0;
  std::size_t section_bytes_ = 0;
  std::size_t taken_ = 0;  // bytes of the chunk that was given out last, not let go yet
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  std::array<ReadBuffer, max_blocks> in_;  // a ring
  std::string_view pending_;
  const Fields* pending_trailers_ = nullptr;
  std::optional<Error> broken_;
  Signal arrived_;
  Signal write_progress_;
};

}  // namespace evenkeel
