#include "http2_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "http2_message.h"

namespace evenkeel {
namespace {

/// That the library writes at a time; a little more than a frame of the smallest allowed maximum.
constexpr std::size_t max_frame_bytes = 16 * 1024 + 64;
constexpr int reads_between_yields = 16;
constexpr int max_reads_before_processing = 4;
constexpr std::uint32_t min_free_bytes = 4 * 1024;
constexpr Duration max_linger_time = std::chrono::seconds(1);
constexpr std::size_t max_linger_bytes = 1024 * 1024;

std::string_view view_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

// ---- what the library tells us ----------------------------------------------------------------

struct Http2Callbacks {
  static Http2Connection& connection_of(void* user_data) {
    return *static_cast<Http2Connection*>(user_data);
  }
  static Http2Stream* stream_of(nghttp2_session* session, std::int32_t id) {
    return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Connection& connection = connection_of(user_data);
    const std::int32_t id = frame->hd.stream_id;
    Http2Stream* stream = stream_of(session, id);
    if (stream == nullptr && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream = connection.begin_message(id);
      if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      stream->id_ = id;
      stream->attached_ = true;
      nghttp2_session_set_stream_user_data(session, id, stream);
    }
    if (stream != nullptr) {
      stream->section_bytes_ = 0;
      stream->section_fields_ = 0;
    }
    return 0;
  }

  static int header(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* user_data) {
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const Http2Settings& settings = connection_of(user_data).settings_;
    stream->section_bytes_ += name_size + value_size + 32;
    ++stream->section_fields_;
    if (stream->section_bytes_ > settings.header_bytes ||
        stream->section_fields_ > settings.header_fields) {
      stream->over_limits_ = true;  // the rest is decoded, for HPACK's sake, but not kept
      if (stream->section_bytes_ > 2 * settings.header_bytes ||
          stream->section_fields_ > 2 * settings.header_fields) {
        Http2Connection& connection = connection_of(user_data);
        connection.reset(*stream, NGHTTP2_ENHANCE_YOUR_CALM);
        connection.headers_too_large(*stream);
        if (!connection.check_verdict(connection.guard_.stream_error(connection.loop().now()))) {
          return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
      }
      return 0;
    }
    stream->field(view_of(name, name_size), view_of(value, value_size));
    return 0;
  }

  static int invalid_header(nghttp2_session*, const nghttp2_frame*, nghttp2_rcbuf*, nghttp2_rcbuf*,
                            std::uint8_t, void*) {
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // resets the stream; by default it is dropped
  }

  static int data_chunk(nghttp2_session* session, std::uint8_t, std::int32_t id,
                        const std::uint8_t* data, std::size_t size, void* user_data) {
    connection_of(user_data).receive_data(stream_of(session, id), view_of(data, size));
    return 0;
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Connection& connection = connection_of(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (Http2Stream* stream = stream_of(session, frame->hd.stream_id)) {
          connection.last_message_ = connection.loop().now();
          connection.headers_done(*stream, (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
        }
        break;
      case NGHTTP2_DATA:
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
          if (Http2Stream* stream = stream_of(session, frame->hd.stream_id))
            stream->mark_remote_end();
        }
        break;
      case NGHTTP2_RST_STREAM: connection.reset_by_peer_ = frame->hd.stream_id; break;
      case NGHTTP2_WINDOW_UPDATE: {
        const auto increment = frame->window_update.window_size_increment;
        if (!connection.check_verdict(
                connection.guard_.window_update(increment, connection.loop().now()))) {
          return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        break;
      }
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          connection.settings_acknowledged_ = true;
        } else {
          connection.settings_received();
        }
        break;
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          connection.ping_unanswered_ = false;
          connection.ping_answered();
        }
        break;
      case NGHTTP2_GOAWAY:
        connection.goaway_received(frame->goaway.last_stream_id, frame->goaway.error_code);
        break;
      default: break;
    }
    return 0;
  }

  static int invalid_frame(nghttp2_session* session, const nghttp2_frame* frame, int,
                           void* user_data) {
    Http2Connection& connection = connection_of(user_data);
    // Its stream is reset, or was refused; what the peer has sent on it meanwhile is no fault.
    connection.guard_.closed(frame->hd.stream_id, Http2Guard::Closed::by_us);
    if (Http2Stream* stream = stream_of(session, frame->hd.stream_id)) stream->invalid_ = true;
    const bool fine =
        connection.check_verdict(connection.guard_.stream_error(connection.loop().now()));
    return fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    const bool headers = frame->hd.type == NGHTTP2_HEADERS;
    if (!headers && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Connection& connection = connection_of(user_data);
    if (headers) connection.guard_.sent_message_frame(0);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr || !stream->reset_when_sent_) return 0;
    connection.reset(*stream, *stream->reset_when_sent_);
    connection.stream_closed(*stream, *stream->reset_when_sent_, false);
    return 0;
  }

  /// A head that the library will not write: the stream must not wait for it.
  static int frame_not_sent(nghttp2_session* session, const nghttp2_frame* frame, int error,
                            void* user_data) {
    const bool closed = error == NGHTTP2_ERR_STREAM_CLOSED || error == NGHTTP2_ERR_STREAM_CLOSING;
    if (frame->hd.type != NGHTTP2_HEADERS || closed) return 0;
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    Http2Connection& connection = connection_of(user_data);
    const bool request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (request && error == NGHTTP2_ERR_START_STREAM_NOT_ALLOWED) return 0;  // after a GOAWAY
    stream->fail_with({.fault = Fault::internal, .detail = nghttp2_strerror(error)});
    if (request) return 0;  // the peer knows nothing of the stream; the library closes it
    connection.reset(*stream, NGHTTP2_INTERNAL_ERROR);
    connection.stream_closed(*stream, NGHTTP2_INTERNAL_ERROR, false);
    return 0;
  }

  static int stream_closed(nghttp2_session* session, std::int32_t id, std::uint32_t code,
                           void* user_data) {
    Http2Connection& connection = connection_of(user_data);
    Http2Stream* stream = stream_of(session, id);
    using Closed = Http2Guard::Closed;
    const bool by_peer = id == connection.reset_by_peer_;
    const bool in_order = code == NGHTTP2_NO_ERROR;
    // What we or the library reset has been noted by then, once.
    if (by_peer) {
      connection.guard_.closed(id, Closed::by_peer);
    } else if (stream != nullptr && !stream->invalid_) {
      connection.guard_.closed(id, in_order ? Closed::done : Closed::by_us);
    }
    if (connection.settings_.side == Http2Guard::Side::client) --connection.open_streams_;
    if (stream == nullptr) return 0;
    stream->attached_ = false;
    // A SETTINGS that lets a window overflow ends the connection (RFC 9113 6.9.2). The library
    // resets each such stream, and says so of no frame.
    const bool overflow = code == NGHTTP2_FLOW_CONTROL_ERROR && !by_peer && !stream->invalid_;
    connection.stream_closed(*stream, code, by_peer);
    const Http2Guard::Violation violation{NGHTTP2_FLOW_CONTROL_ERROR, "a window that overflows"};
    return !overflow || connection.check_verdict(violation) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static ssize_t read_data(nghttp2_session* session, std::int32_t id, std::uint8_t*,
                           std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                           void* user_data) {
    Http2Stream* stream = stream_of(session, id);
    if (stream == nullptr) return NGHTTP2_ERR_DEFERRED;  // on its way to be reset
    if (stream->pending_.empty() && !stream->last_) {
      stream->deferred_ = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    const Http2Connection& connection = connection_of(user_data);
    // A frame that is no DATA may come in the same call, and needs room behind it.
    const std::size_t used = connection.out_size_ + Http2FrameHeader::size + max_frame_bytes;
    if (used > connection.out_.size()) return NGHTTP2_ERR_PAUSE;  // first send what is there
    const std::size_t room = connection.out_.size() - used;
    const std::size_t wanted = std::min(size, stream->pending_.size());
    if (room < wanted && room < min_free_bytes) return NGHTTP2_ERR_PAUSE;
    const std::size_t given = std::min(wanted, room);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->last_ && given == stream->pending_.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (stream->pending_trailers_ != nullptr) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (connection_of(user_data).submit_trailers(*stream) != 0) {
          return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
      }
    }
    return static_cast<ssize_t>(given);
  }

  static int send_data(nghttp2_session* session, nghttp2_frame* frame, const std::uint8_t* head,
                       std::size_t size, nghttp2_data_source*, void* user_data) {
    Http2Connection& connection = connection_of(user_data);
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    // `read_data` has seen to the room, and nothing runs between it and this.
    if (stream == nullptr) return NGHTTP2_ERR_CALLBACK_FAILURE;
    assert(connection.out_size_ + Http2FrameHeader::size + size <= connection.out_.size());
    char* at = connection.out_.data() + connection.out_size_;
    std::memcpy(at, head, Http2FrameHeader::size);
    if (size > 0) std::memcpy(at + Http2FrameHeader::size, stream->pending_.data(), size);
    connection.out_size_ += static_cast<std::uint32_t>(Http2FrameHeader::size + size);
    connection.guard_.sent_message_frame(size);
    stream->pending_.remove_prefix(size);
    stream->sent_ += size;
    if (stream->pending_.empty()) {
      if (stream->last_) stream->end_sent_ = true;
      stream->write_progress_.raise();
    }
    return 0;
  }

  static nghttp2_session_callbacks* make() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_received);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, frame_not_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    return callbacks;
  }
};

// ---- the connection ---------------------------------------------------------------------------

namespace {

/// The library's memory comes from the thread's free lists: it takes some twenty pieces a request.
/// Each is preceded by its size, which the free lists want back.
struct PooledMemory {
  static constexpr std::size_t prefix_bytes = alignof(std::max_align_t);

  static void* take(std::size_t size, void*) {
    auto* raw = static_cast<char*>(allocate_pooled(size + prefix_bytes));
    std::memcpy(raw, &size, sizeof size);
    return raw + prefix_bytes;
  }
  static std::size_t size_of(const void* memory) {
    std::size_t size;
    std::memcpy(&size, static_cast<const char*>(memory) - prefix_bytes, sizeof size);
    return size;
  }
  static void give(void* memory, void*) {
    if (memory == nullptr) return;
    free_pooled(static_cast<char*>(memory) - prefix_bytes, size_of(memory) + prefix_bytes);
  }
  static void* take_zeroed(std::size_t count, std::size_t size, void*) {
    void* memory = take(count * size, nullptr);
    return std::memset(memory, 0, count * size);
  }
  static void* change(void* memory, std::size_t size, void*) {
    if (memory == nullptr) return take(size, nullptr);
    void* larger = take(size, nullptr);
    std::memcpy(larger, memory, std::min(size, size_of(memory)));
    give(memory, nullptr);
    return larger;
  }
};

nghttp2_mem pooled_memory{nullptr, PooledMemory::take, PooledMemory::give,
                          PooledMemory::take_zeroed, PooledMemory::change};

nghttp2_option* make_options() {
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  // More than any head that we let in.
  nghttp2_option_set_max_send_header_block_length(option, 512 * 1024);
  // The guard counts resets, and forgives what gRPC clients do.
  nghttp2_option_set_stream_reset_rate_limit(option, 1'000'000, 1'000'000);
  return option;
}

}  // namespace

Http2Connection::Http2Connection(std::unique_ptr<Socket> socket, const Http2Settings& settings)
    : socket_(std::move(socket)), settings_(settings), guard_(settings.side) {
  static nghttp2_session_callbacks* const callbacks = Http2Callbacks::make();
  static nghttp2_option* const options = make_options();
  const auto make = settings.side == Http2Guard::Side::server ? nghttp2_session_server_new3
                                                              : nghttp2_session_client_new3;
  if (make(&session_, callbacks, this, options, &pooled_memory) != 0) throw std::bad_alloc();
  if (settings.side == Http2Guard::Side::server) {
    magic_left_ = NGHTTP2_CLIENT_MAGIC_LEN;
  }
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::open() {
  std::array<nghttp2_settings_entry, 4> entries;
  std::size_t count = 0;
  const auto add_setting = [&](std::int32_t id, std::uint32_t value) {
    entries[count++] = {id, value};
  };
  if (settings_.side == Http2Guard::Side::server) {
    add_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings_.streams);
    add_setting(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
  } else {
    add_setting(NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
  }
  add_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings_.stream_window);
  add_setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
              static_cast<std::uint32_t>(settings_.header_bytes));
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), count);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(settings_.connection_window));
  last_read_at_ = loop().now();
  want_flush();
}

Task<void> Http2Connection::run(ReadBuffer received) {
  bool go_on = true;
  if (!received.empty()) {
    in_ = std::move(received);
    go_on = feed(in_.bytes());
    if (go_on) after_reading();
  }
  int without_waiting = 0;
  int unprocessed_reads = 0;  // reads whose messages are not begun
  bool filled = false;
  while (go_on && !ended_) {
    Watch& watch = socket_->watch();
    // Clients send the heads of all their streams, then the bodies: what has arrived is read first,
    // so that head and body of a request leave together.
    if (unprocessed_reads > 0 &&
        (!watch.readable() || unprocessed_reads == max_reads_before_processing)) {
      unprocessed_reads = 0;
      after_reading();
      if (ended_) break;
      if (session_finished() && !flush_wanted_ && !writing_.valid()) break;
    }
    if (!watch.readable()) {
      in_.release();
      filled = false;
      without_waiting = 0;
      auto wake = co_await watch.until_readable(deadline());
      if (ended_) break;
      if (wake != Wake::ready) {
        go_on = continue_after_wait(wake == Wake::expired);
        continue;
      }
    } else if (++without_waiting == reads_between_yields) {
      without_waiting = 0;
      co_await loop().yield();
      if (ended_) break;
    }
    const std::uint32_t size = filled ? Block::large : Block::small;
    if (!in_.block || in_.block.size() < size) in_.block = Block::take(size);
    const auto got = socket_->read_some(in_.block.data(), in_.block.size());
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) break;
    filled = got.size == in_.block.size();
    last_read_at_ = loop().now();
    go_on = feed({in_.block.data(), got.size});
    ++unprocessed_reads;
  }
  in_.release();
  flush();
  end();
}

/// Both sides have said that they are leaving, and have nothing to do.
bool Http2Connection::session_finished() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

bool Http2Connection::may_open_streams() const {
  return nghttp2_session_check_request_allowed(session_) != 0;
}

std::uint32_t Http2Connection::streams_allowed() const {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool Http2Connection::alive(std::int32_t stream) const {
  return nghttp2_session_get_stream_user_data(session_, stream) != nullptr;
}

bool Http2Connection::check_verdict(const Http2Guard::Verdict& verdict) {
  if (verdict && !violation_) violation_ = verdict;
  return !verdict;
}

/// Moves bytes to `head_bytes_` until it holds `wanted` of the current frame.
bool Http2Connection::buffer_frame_bytes(std::string_view bytes, std::size_t& at,
                                         std::size_t wanted) {
  if (head_size_ < wanted) {
    const std::size_t size = std::min<std::size_t>(wanted - head_size_, bytes.size() - at);
    std::memcpy(head_bytes_.data() + head_size_, bytes.data() + at, size);
    at += size;
    head_size_ = static_cast<std::uint8_t>(head_size_ + size);
  }
  return head_size_ >= wanted;
}

/// Gives what was read to the library, frame by frame where the guard has to see the state between
/// them. False: the connection is at its end.
bool Http2Connection::feed(std::string_view bytes) {
  std::size_t fed = 0;
  std::size_t at = 0;
  std::size_t begin = 0;  // of the current frame, as far as it is in here
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
        on_violation(*violation_);
        fail(violation_->code, violation_->detail);
      }
      return false;
    }
    payload_left_ = head.length - static_cast<std::uint32_t>(seen);
  }
  return feed_nghttp2(bytes.substr(fed));
}

bool Http2Connection::feed_nghttp2(std::string_view bytes) {
  if (bytes.empty()) return true;
  const auto taken = nghttp2_session_mem_recv(session_, bytes_of(bytes), bytes.size());
  if (taken >= 0) {
    if (nghttp2_session_want_write(session_) != 0) want_flush();
    return true;
  }
  if (violation_) {
    on_violation(*violation_);
    fail(violation_->code, violation_->detail);
  } else if (taken == NGHTTP2_ERR_FLOODED || taken == NGHTTP2_ERR_TOO_MANY_SETTINGS ||
             taken == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    const Http2Guard::Violation flood{NGHTTP2_ENHANCE_YOUR_CALM,
                                      nghttp2_strerror(static_cast<int>(taken))};
    on_violation(flood);
    fail(flood.code, flood.detail);
  } else {
    fail(NGHTTP2_PROTOCOL_ERROR, nghttp2_strerror(static_cast<int>(taken)));
  }
  return false;
}

void Http2Connection::receive_data(Http2Stream* stream, std::string_view bytes) {
  const bool kept = stream != nullptr && stream->append(bytes);
  if (!kept) {
    nghttp2_session_consume_connection(session_, bytes.size());
    if (stream != nullptr) {
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id_,
                                NGHTTP2_FLOW_CONTROL_ERROR);
    }
    return;
  }
  last_message_ = loop().now();
  // A stream that nobody reads stops itself by its own window, and no other: were the connection's
  // withheld, requests that wait for a place could keep the one that has it from ending.
  nghttp2_session_consume_connection(session_, bytes.size());
}

void Http2Connection::consumed(Http2Stream& stream, std::size_t size) {
  if (stream.attached_) nghttp2_session_consume_stream(session_, stream.id_, size);
  if (nghttp2_session_want_write(session_) != 0) want_flush();
}

void Http2Connection::detach(Http2Stream& stream) {
  if (!stream.attached_) return;
  stream.attached_ = false;
  nghttp2_session_set_stream_user_data(session_, stream.id_, nullptr);
}

void Http2Connection::reset(Http2Stream& stream, std::uint32_t code) {
  if (!stream.attached_) return;
  detach(stream);
  guard_.closed(stream.id_, Http2Guard::Closed::by_us);
  if (ended_) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id_, code);
  want_flush();
}

void Http2Connection::reset_when_sent(Http2Stream& stream, std::uint32_t code) {
  if (nghttp2_session_get_stream_local_close(session_, stream.id_) != 1) {
    stream.reset_when_sent_ = code;
    return;
  }
  reset(stream, code);
  stream_closed(stream, code, false);
}

void Http2Connection::submit_final_goaway() {
  const std::int32_t last = nghttp2_session_get_last_proc_stream_id(session_);
  guard_.goaway_sent(last);
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
  want_flush();
}

void Http2Connection::ping() {
  ping_unanswered_ = true;
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  want_flush();
}

// ---- writing ----------------------------------------------------------------------------------

/// Has the library write frames into `out_` until it has none left, or there is no room.
bool Http2Connection::fill() {
  if (!out_) out_ = Block::take(Block::large);
  while (out_size_ + 2 * max_frame_bytes <= out_.size()) {
    const std::uint8_t* frame = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &frame);
    if (size < 0) return false;
    if (size == 0) break;
    assert(out_size_ + static_cast<std::size_t>(size) <= out_.size());
    std::memcpy(out_.data() + out_size_, frame, static_cast<std::size_t>(size));
    out_size_ += static_cast<std::uint32_t>(size);
  }
  return true;
}

void Http2Connection::flush() {
  if (ended_) return;
  if (writing_.valid()) {
    if (!writing_.ready()) return;  // goes on when the peer has read
    writing_.drop();
  }
  while (true) {
    if (!fill()) {
      if (violation_) {
        on_violation(*violation_);
        send_goaway(violation_->code, violation_->detail);
      } else {
        failure_ = "frames that cannot be written";
      }
      end();
      return;
    }
    if (out_size_ == 0) break;
    auto writing = socket_->write({}, {out_.data(), out_size_}, {}, settings_.write_timeout);
    if (!writing.ready()) {
      writing_ = write_rest(std::move(writing));
      return;
    }
    const bool written = writing.take().ok();
    out_size_ = 0;
    if (!written) {
      failure_ = "the peer broke the connection";
      end();
      return;
    }
  }
  out_ = Block();
  if (session_finished()) end();
}

Task<void> Http2Connection::write_rest(Task<Result<Done>> writing) {
  auto written = co_await writing;
  out_size_ = 0;
  if (written) {
    want_flush();
  } else {
    failure_ = "the peer takes nothing";
    end();
  }
}

void Http2Connection::end() {
  if (ended_) return;
  ended_ = true;
  socket_->watch().interrupt();
}

void Http2Connection::fail(std::uint32_t code, const char* detail) {
  if (ended_) return;
  flush();  // our first frame is SETTINGS, whatever the peer begins with
  if (ended_) return;
  send_goaway(code, detail);
  end();
}

/// The library is not asked: it may be in the state that made us end.
void Http2Connection::send_goaway(std::uint32_t code, const char* detail) {
  failure_ = detail;
  if (writing_.valid() && !writing_.ready()) return;
  const auto last = static_cast<std::uint32_t>(nghttp2_session_get_last_proc_stream_id(session_));
  std::array<char, Http2FrameHeader::size + 8> frame{0, 0, 8, NGHTTP2_GOAWAY};
  for (unsigned i = 0; i < 4; ++i) {
    frame[9 + i] = static_cast<char>(last >> (24 - 8 * i));
    frame[13 + i] = static_cast<char>(code >> (24 - 8 * i));
  }
  socket_->write_now({out_.data(), out_size_});
  out_size_ = 0;
  socket_->write_now({frame.data(), frame.size()});
}

Task<void> Http2Connection::linger() {
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
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) break;
    drained += got.size;
  }
}

nghttp2_data_provider Http2Connection::body_source() { return {{}, Http2Callbacks::read_data}; }

int Http2Connection::submit_trailers(Http2Stream& stream) {
  Http2HeaderBlock& section = Http2HeaderBlock::scratch(Http2HeaderBlock::Values::copied);
  section.add_all(*stream.pending_trailers_, false);
  return nghttp2_submit_trailer(session_, stream.id_, section.data(), section.size());
}

}  // namespace evenkeel
