// An HTTP/2 session over nghttp2, for frontends and backend links.
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
#include "evenkeel/config/config.h"
#include "evenkeel/net/socket.h"
#include "http2_guard.h"
#include "http2_output.h"
#include "http2_priority.h"

namespace evenkeel {

class Http2Stream;

/// The settings of a session. Windows are in bytes (RFC 9113, section 6.9).
struct Http2Settings {
  Http2Guard::Side side;
  std::uint32_t streams = ListenerLimits{}.max_streams;  ///< that the peer may have open at a time
  std::uint32_t stream_window = 64 * 1024;               ///< initially
  std::uint32_t wide_stream_window = 256 * 1024;         ///< for a stream whose reader keeps up
  std::uint32_t connection_window = 1024 * 1024;
  std::size_t header_bytes =
      ListenerLimits{}.header_bytes;  ///< of names, values and 32 for each field
  std::size_t header_fields = ListenerLimits{}.header_fields;
  Duration write_timeout = ListenerTimeouts{}.write;
};

/// What happened on the connection, apart from any stream.
enum class Http2Event : std::uint8_t {
  settings_received,
  ping_answered,
  goaway_received,
  violation,  ///< the peer broke a rule (`Http2Ending::violation`): the session ends
};

/// What the peer of a session has let it know of itself.
struct Http2Peer {
  std::optional<std::uint32_t> goaway;  ///< the error code of its last GOAWAY
  bool settings_acknowledged = false;
  bool ping_unanswered = false;
  Instant last_message{};  ///< when a HEADERS or DATA frame was last read
  Instant last_read{};     ///< when anything was last read
};

/// How a session ended.
struct Http2Ending {
  /// True if the peer ended the connection, not this side for the peer's silence or a broken rule.
  bool by_peer = false;
  const char* reason = "the connection has ended";  ///< for the log
  std::optional<Http2Guard::Violation> violation;   ///< the rule that the peer broke
};

/// The side that a session serves: a frontend or a backend link. Its methods run inside nghttp2's
/// callbacks where not said otherwise: they must not destroy a stream that is attached.
class Http2Side {
 public:
  virtual ~Http2Side() = default;
  /// The peer opens a stream; null refuses it.
  virtual Http2Stream* accept_stream() { return nullptr; }
  virtual void on_event(Http2Event event) = 0;
  /// All input read so far is processed. Outside nghttp2: streams may start and be destroyed.
  virtual void input_processed() {}
  /// Enforces the side's own deadlines and returns the next one; nothing ends the session. Called
  /// before each wait for input, outside nghttp2.
  virtual std::optional<Instant> check_deadlines() { return never; }
};

/// One HTTP/2 connection, of either side: frames, flow control, and one write per loop step for
/// everything that the step sends. Thread: its loop's.
class Http2Session {
 public:
  /// `side` outlives the session.
  Http2Session(std::unique_ptr<Socket> socket, const Http2Settings& settings, Http2Side& side);
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;
  ~Http2Session();

  Loop& loop() const { return socket_->loop(); }
  Socket& socket() { return *socket_; }
  nghttp2_session* nghttp2() { return session_; }
  const Http2Settings& settings() const { return settings_; }
  const Http2Peer& peer() const { return peer_; }

  // ---- the connection ----

  /// Sends the first frames. Call once, after construction.
  void open();
  /// Reads until the connection ends. `received`: bytes that were read before.
  Task<void> run(ReadBuffer received);
  /// Sends the queued frames at the end of this step of the loop.
  void want_flush() {
    if (flush_wanted_) return;
    flush_wanted_ = true;
    loop().wake_soon(flush_);
  }
  /// Sends the queued frames now. Not within nghttp2's callbacks.
  void flush();
  /// How the peer is pinged: servers limit PING frames, and must acknowledge an empty SETTINGS.
  enum class Ping : std::uint8_t { ping, settings };
  void ping(Ping how);
  /// The last of our GOAWAYs: newer streams of the peer are ignored from now on.
  void submit_final_goaway();
  /// Sends what is queued and a GOAWAY with the reason, then ends.
  void fail(std::uint32_t code, const char* detail);
  bool ended() const { return ended_; }
  const Http2Ending& ending() const { return ending_; }
  /// Ends sending, then discards input until the peer closes, so that our last frames arrive.
  Task<void> linger();

  // ---- streams ----

  /// Detaches a stream from the session; further frames on it are ignored.
  void detach(Http2Stream& stream);
  /// Detaches a stream and sends RST_STREAM.
  void reset(Http2Stream& stream, std::uint32_t code);
  /// Resets a stream because the peer broke a rule: the session ends if that happens too often.
  /// Only within `Http2Stream::headers_complete`.
  void reset_invalid(Http2Stream& stream, std::uint32_t code);
  /// Resets a stream after our last frame on it is sent, since a reset would discard that. Then
  /// calls `Http2Stream::closed`.
  void reset_when_sent(Http2Stream& stream, std::uint32_t code);
  /// The reader of a stream consumed bytes: lets the peer send more.
  void consumed(Http2Stream& stream, std::size_t size);
  /// How many streams that we opened are open, and how many the peer allows us in all.
  std::uint32_t open_streams() const { return open_streams_; }
  std::uint32_t streams_allowed() const;
  /// How long ago the peer's window for all streams was used up, if it has opened it no further
  /// since; 0: it is open.
  Duration window_closed_for() const;

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
  Task<void> write_rest(Task<Result<Done>> writing);
  int submit_trailers(Http2Stream& stream);
  void report_violation();
  void send_goaway(std::uint32_t code, const char* detail);
  void end();

  void flush_wanted() {
    flush_wanted_ = false;
    flush();
  }

  Http2Side& side_;
  std::unique_ptr<Socket> socket_;
  Http2Settings settings_;
  nghttp2_session* session_ = nullptr;
  Http2Guard guard_;
  MethodWaiter<&Http2Session::flush_wanted> flush_{*this};
  ReadBuffer in_;
  Http2Output output_;
  Task<void> writing_;
  // The frame whose header or payload is being read:
  std::array<char, Http2FrameHeader::size + Http2Guard::max_inspected_bytes> head_bytes_{};
  std::uint8_t head_size_ = 0;
  std::uint32_t payload_left_ = 0;
  std::uint8_t magic_left_ = 0;
  bool flush_wanted_ = false;
  bool ended_ = false;
  Http2Ending ending_;
  Http2Peer peer_;
  Http2Stream* section_ = nullptr;  // whose header section is being read
  Http2PriorityField section_priority_;
  std::int32_t reset_by_peer_ = 0;  // the stream of the last RST_STREAM received
  std::uint32_t open_streams_ = 0;
  Instant window_closed_at_ = never;  // as far as has been written; never: it was open then
};

}  // namespace evenkeel
