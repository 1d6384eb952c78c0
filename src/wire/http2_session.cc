#include "http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "http2_callbacks.h"
#include "http2_message.h"
#include "http2_stream.h"
#include "yield_counter.h"

namespace evenkeel {
namespace {

constexpr int max_reads_before_processing = 4;
constexpr Duration max_linger_time = std::chrono::seconds(1);
constexpr std::size_t max_linger_bytes = 1024 * 1024;

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

Http2Session::Http2Session(std::unique_ptr<Socket> socket, const Http2Settings& settings,
                           Http2Side& side)
    : side_(side), socket_(std::move(socket)), settings_(settings), guard_(settings.side) {
  session_ = make_nghttp2_session(*this, settings.side);
  if (settings.side == Http2Guard::Side::server) magic_left_ = NGHTTP2_CLIENT_MAGIC_LEN;
}

Http2Session::~Http2Session() { nghttp2_session_del(session_); }

void Http2Session::open() {
  std::array<nghttp2_settings_entry, 5> entries;
  std::size_t count = 0;
  const auto add_setting = [&](std::int32_t id, std::uint32_t value) {
    entries[count++] = {id, value};
  };
  if (settings_.side == Http2Guard::Side::server) {
    add_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings_.streams);
    add_setting(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
    add_setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1);
  } else {
    add_setting(NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
  }
  add_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings_.stream_window);
  add_setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
              static_cast<std::uint32_t>(settings_.header_bytes));
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), count);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(settings_.connection_window));
  peer_.last_read = loop().now();
  want_flush();
}

Task<void> Http2Session::run(ReadBuffer received) {
  bool go_on = true;
  if (!received.empty()) {
    in_ = std::move(received);
    go_on = feed(in_.bytes());
    if (go_on) side_.input_processed();
  }
  YieldCounter steps;
  int unprocessed_reads = 0;  // reads whose messages have not started
  bool filled = false;
  while (go_on && !ended_) {
    Watch& watch = socket_->watch();
    // Clients send the heads of all their streams, then the bodies. Everything that has arrived is
    // read first, so that head and body of a request are sent together.
    if (unprocessed_reads > 0 &&
        (!watch.readable() || unprocessed_reads == max_reads_before_processing)) {
      unprocessed_reads = 0;
      side_.input_processed();
      if (ended_) break;
      if (session_finished() && !flush_wanted_ && !writing_.valid()) break;
    }
    if (!watch.readable()) {
      in_.release();
      filled = false;
      steps.waited();
      const auto deadline = side_.check_deadlines();
      if (!deadline) break;
      auto wake = co_await watch.until_readable(*deadline);
      if (ended_) break;
      if (wake != Wake::ready) continue;
    } else if (steps.is_due()) {
      co_await loop().yield();
      if (ended_) break;
    }
    const std::uint32_t size = filled ? Block::large : Block::small;
    if (!in_.block || in_.block.size() < size) in_.block = Block::take(size);
    const auto got = socket_->read_some(in_.block.data(), in_.block.size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status != Socket::ReadStatus::bytes) {
      ending_.by_peer = true;
      break;
    }
    filled = got.size == in_.block.size();
    peer_.last_read = loop().now();
    go_on = feed({in_.block.data(), got.size});
    ++unprocessed_reads;
  }
  in_.release();
  flush();
  end();
}

/// True if both sides have sent GOAWAY and have nothing left to send or receive.
bool Http2Session::session_finished() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

std::uint32_t Http2Session::streams_allowed() const {
  if (nghttp2_session_check_request_allowed(session_) == 0) return 0;
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool Http2Session::alive(std::int32_t stream) const {
  return nghttp2_session_get_stream_user_data(session_, stream) != nullptr;
}

bool Http2Session::check_verdict(const Http2Guard::Verdict& verdict) {
  if (verdict && !ending_.violation) ending_.violation = verdict;
  return !verdict;
}

/// Moves bytes to `head_bytes_` until it holds `wanted` of the current frame.
bool Http2Session::buffer_frame_bytes(std::string_view bytes, std::size_t& at, std::size_t wanted) {
  if (head_size_ < wanted) {
    const std::size_t size = std::min<std::size_t>(wanted - head_size_, bytes.size() - at);
    std::memcpy(head_bytes_.data() + head_size_, bytes.data() + at, size);
    at += size;
    head_size_ = static_cast<std::uint8_t>(head_size_ + size);
  }
  return head_size_ >= wanted;
}

/// Passes what was read to nghttp2, frame by frame where the guard needs the state between frames.
/// False: the connection ends.
bool Http2Session::feed(std::string_view bytes) {
  std::size_t fed = 0;
  std::size_t at = 0;
  std::size_t begin = 0;  // of the current frame, if it begins in `bytes`
  const auto skip = [&](auto& left) {
    const std::size_t skipped = std::min<std::size_t>(left, bytes.size() - at);
    left = static_cast<std::remove_reference_t<decltype(left)>>(left - skipped);
    at += skipped;
  };
  while (at < bytes.size()) {
    if (magic_left_ > 0) {
      skip(magic_left_);
      continue;
    }
    if (payload_left_ > 0) {
      skip(payload_left_);
      continue;
    }
    if (head_size_ == 0) begin = at;
    if (!buffer_frame_bytes(bytes, at, Http2FrameHeader::size)) break;
    const auto head = Http2FrameHeader::parse(head_bytes_.data());
    const std::size_t seen = guard_.payload_bytes_needed(head);  // of the payload
    if (!buffer_frame_bytes(bytes, at, Http2FrameHeader::size + seen)) break;
    head_size_ = 0;
    bool is_alive = false;
    if (guard_.needs_stream_state(head)) {
      if (!feed_nghttp2(bytes.substr(fed, begin - fed))) return false;
      fed = begin;
      is_alive = alive(head.stream);
    }
    const std::string_view payload(head_bytes_.data() + Http2FrameHeader::size, seen);
    if (!check_verdict(guard_.frame(head, payload, is_alive, loop().now()))) {
      if (feed_nghttp2(bytes.substr(fed, begin - fed))) {
        report_violation();
      }
      return false;
    }
    payload_left_ = head.length - static_cast<std::uint32_t>(seen);
  }
  return feed_nghttp2(bytes.substr(fed));
}

bool Http2Session::feed_nghttp2(std::string_view bytes) {
  if (bytes.empty()) return true;
  const auto taken = nghttp2_session_mem_recv(session_, bytes_of(bytes), bytes.size());
  if (taken >= 0) {
    if (nghttp2_session_want_write(session_) != 0) want_flush();
    return true;
  }
  if (ending_.violation) {
    report_violation();
  } else if (taken == NGHTTP2_ERR_FLOODED || taken == NGHTTP2_ERR_TOO_MANY_SETTINGS ||
             taken == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    ending_.violation = {NGHTTP2_ENHANCE_YOUR_CALM, nghttp2_strerror(static_cast<int>(taken))};
    report_violation();
  } else {
    fail(NGHTTP2_PROTOCOL_ERROR, nghttp2_strerror(static_cast<int>(taken)));
  }
  return false;
}

void Http2Session::report_violation() {
  side_.on_event(Http2Event::violation);
  fail(ending_.violation->code, ending_.violation->detail);
}

void Http2Session::receive_data(Http2Stream* stream, std::string_view bytes) {
  const bool kept = stream != nullptr && stream->in_.append(bytes);
  if (!kept) {
    nghttp2_session_consume_connection(session_, bytes.size());
    if (stream != nullptr) {
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id_,
                                NGHTTP2_FLOW_CONTROL_ERROR);
    }
    return;
  }
  stream->arrived();
  peer_.last_message = loop().now();
  // The connection's window is returned at once: a stream that is not read is stopped by its own
  // window. Otherwise queued requests could block the one whose end they wait for.
  nghttp2_session_consume_connection(session_, bytes.size());
}

void Http2Session::consumed(Http2Stream& stream, std::size_t size) {
  if (stream.attached_) nghttp2_session_consume_stream(session_, stream.id_, size);
  if (nghttp2_session_want_write(session_) != 0) want_flush();
}

void Http2Session::detach(Http2Stream& stream) {
  if (!stream.attached_) return;
  stream.attached_ = false;
  if (section_ == &stream) section_ = nullptr;
  nghttp2_session_set_stream_user_data(session_, stream.id_, nullptr);
}

void Http2Session::reset(Http2Stream& stream, std::uint32_t code) {
  if (!stream.attached_) return;
  detach(stream);
  guard_.closed(stream.id_, Http2Guard::Closed::by_us);
  if (ended_) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id_, code);
  want_flush();
}

void Http2Session::reset_invalid(Http2Stream& stream, std::uint32_t code) {
  reset(stream, code);
  check_verdict(guard_.stream_error(loop().now()));  // kept in `ending_.violation`
}

void Http2Session::reset_when_sent(Http2Stream& stream, std::uint32_t code) {
  if (nghttp2_session_get_stream_local_close(session_, stream.id_) != 1) {
    stream.reset_when_sent_ = code;
    return;
  }
  reset(stream, code);
  stream.closed(code, false);
}

void Http2Session::submit_final_goaway() {
  const std::int32_t last = nghttp2_session_get_last_proc_stream_id(session_);
  guard_.goaway_sent(last);
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
  want_flush();
}

void Http2Session::ping(Ping how) {
  peer_.ping_unanswered = true;
  if (how == Ping::ping) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  } else {
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  want_flush();
}

// ---- writing ----------------------------------------------------------------------------------

int Http2Session::submit_trailers(Http2Stream& stream) {
  auto section = std::make_unique<Http2Section>(Http2Section::Values::copied);
  section->add_all(*stream.pending_trailers_);
  const int result = nghttp2_submit_trailer(session_, stream.id_, nullptr, 0);
  if (result == 0) output_.queue_section(stream.id_, std::move(section));
  return result;
}

void Http2Session::flush() {
  if (ended_) return;
  // The peer has opened its window, which may be used up at once.
  if (nghttp2_session_get_remote_window_size(session_) > 0) [[likely]]
    window_closed_at_ = never;
  if (writing_.valid()) {
    if (!writing_.ready()) return;  // continues when the peer has read
    writing_.drop();
  }
  while (true) {
    if (!output_.fill(session_)) {
      if (ending_.violation) {
        side_.on_event(Http2Event::violation);
        send_goaway(ending_.violation->code, ending_.violation->detail);
      } else {
        ending_.reason = "frames could not be written";
      }
      end();
      return;
    }
    if (output_.written().empty()) break;
    auto writing = socket_->write({}, output_.written(), {}, settings_.write_timeout);
    if (!writing.ready()) {
      writing_ = write_rest(std::move(writing));
      return;
    }
    const bool written = writing.take().ok();
    output_.clear();
    if (!written) {
      ending_.reason = "the peer broke the connection";
      ending_.by_peer = true;
      end();
      return;
    }
  }
  output_.release();
  if (nghttp2_session_get_remote_window_size(session_) <= 0) [[unlikely]]
    window_closed_at_ = std::min(window_closed_at_, loop().now());
  if (session_finished()) end();
}

Duration Http2Session::window_closed_for() const {
  if (window_closed_at_ == never || nghttp2_session_get_remote_window_size(session_) > 0) return {};
  return loop().now() - window_closed_at_;
}

Task<void> Http2Session::write_rest(Task<Result<Done>> writing) {
  auto written = co_await writing;
  output_.clear();
  if (written) {
    want_flush();
  } else {
    ending_.reason = "the peer reads nothing";
    ending_.by_peer = written.error().fault != Fault::write_timeout;
    end();
  }
}

void Http2Session::end() {
  if (ended_) return;
  ended_ = true;
  socket_->watch().interrupt();
}

void Http2Session::fail(std::uint32_t code, const char* detail) {
  if (ended_) return;
  flush();  // our first frame must be SETTINGS
  if (ended_) return;
  send_goaway(code, detail);
  end();
}

/// Bypasses nghttp2, which may be in the state that ended the session.
void Http2Session::send_goaway(std::uint32_t code, const char* detail) {
  ending_.reason = detail;
  if (writing_.valid() && !writing_.ready()) return;
  const auto last = static_cast<std::uint32_t>(nghttp2_session_get_last_proc_stream_id(session_));
  std::array<char, Http2FrameHeader::size + 8> frame{0, 0, 8, NGHTTP2_GOAWAY};
  Http2FrameHeader::put_word(&frame[9], last);
  Http2FrameHeader::put_word(&frame[13], code);
  socket_->write_now(output_.written());
  output_.clear();
  socket_->write_now({frame.data(), frame.size()});
}

Task<void> Http2Session::linger() {
  if (writing_.valid() && !writing_.ready()) co_return;
  Watch& watch = socket_->watch();
  if (watch.broken()) co_return;
  socket_->shutdown_write();
  const Instant deadline = loop().now() + max_linger_time;
  in_.block = Block::take(Block::small);
  for (std::size_t drained = 0; drained < max_linger_bytes;) {
    if (!watch.readable()) {
      auto wake = co_await watch.until_readable(deadline);
      if (wake == Wake::expired) break;
    }
    const auto got = socket_->read_some(in_.block.data(), in_.block.size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status != Socket::ReadStatus::bytes) break;
    drained += got.size;
  }
}

}  // namespace evenkeel
