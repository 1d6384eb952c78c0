#include "http2_callbacks.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "evenkeel/base/out_of_memory.h"
#include "evenkeel/base/pool_allocator.h"
#include "http2_message.h"
#include "http2_stream.h"

namespace evenkeel {
namespace {

std::string_view view_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

struct Http2Callbacks {
  static Http2Session& session_of(void* user_data) {
    return *static_cast<Http2Session*>(user_data);
  }
  static Http2Stream* stream_of(nghttp2_session* session, std::int32_t id) {
    return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Session& owner = session_of(user_data);
    const std::int32_t id = frame->hd.stream_id;
    owner.section_ = nullptr;
    Http2Stream* stream = stream_of(session, id);
    if (stream == nullptr && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream = owner.side_.accept_stream();
      if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      stream->id_ = id;
      stream->attached_ = true;
      nghttp2_session_set_stream_user_data(session, id, stream);
    }
    if (stream != nullptr) {
      stream->skips_section_ = false;
      stream->section_bytes_ = 0;
      stream->section_fields_ = 0;
    }
    owner.section_ = stream;
    owner.section_priority_ = {};
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name_bytes,
                    std::size_t name_size, const std::uint8_t* value_bytes, std::size_t value_size,
                    std::uint8_t flags, void* user_data) {
    Http2Session& owner = session_of(user_data);
    Http2Stream* stream = owner.section_;
    if (stream == nullptr || stream->skips_section_) return 0;
    const std::string_view name = view_of(name_bytes, name_size);
    const std::string_view value = view_of(value_bytes, value_size);
    const FieldId id = field_id(name);
    switch (stream->check_.field(name, id, value)) {
      case Http2MessageCheck::Finding::malformed: return refuse_malformed(owner, *stream);
      case Http2MessageCheck::Finding::ignored: return 0;
      case Http2MessageCheck::Finding::fine: break;
    }
    if (is_name(name, "priority")) owner.section_priority_.add(value);
    const Http2Settings& settings = owner.settings_;
    stream->section_bytes_ += name_size + value_size + 32;
    ++stream->section_fields_;
    if (stream->section_bytes_ > settings.header_bytes ||
        stream->section_fields_ > settings.header_fields) {
      return exceed_limits(owner, *stream);
    }
    stream->field({.name_begin = name.data(),
                   .value_begin = value.data(),
                   .value_size = static_cast<std::uint32_t>(value.size()),
                   .name_size = static_cast<std::uint16_t>(name.size()),
                   .id = id,
                   .never_indexed = (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0});
    return 0;
  }

  /// A section above the limits is decoded to its end, which HPACK needs, but not kept: the request
  /// can be answered. What is beyond twice the limits is not even looked at, and counts as an error
  /// of the peer: a few bytes may stand for many fields.
  static int exceed_limits(Http2Session& owner, Http2Stream& stream) {
    const Http2Settings& settings = owner.settings_;
    stream.exceeded_limit_ = stream.section_bytes_ > settings.header_bytes
                                 ? MessageLimit::header
                                 : MessageLimit::header_fields;
    if (stream.section_bytes_ <= 2 * settings.header_bytes &&
        stream.section_fields_ <= 2 * settings.header_fields) {
      return 0;
    }
    stream.skips_section_ = true;
    return count_error(owner);
  }

  static int refuse_malformed(Http2Session& owner, Http2Stream& stream) {
    return abandon(owner, stream, NGHTTP2_PROTOCOL_ERROR, true);
  }

  /// A body that differs from its content-length, or that follows no head. From a backend it says
  /// nothing about the connection.
  static int refuse_body(Http2Session& owner, Http2Stream& stream) {
    const bool from_client = owner.settings_.side == Http2Guard::Side::server;
    return abandon(owner, stream, NGHTTP2_PROTOCOL_ERROR, from_client);
  }

  /// Resets a stream because of what was received on it; what follows on it is ignored. If that
  /// `counts` and happens too often, the session ends.
  static int abandon(Http2Session& owner, Http2Stream& stream, std::uint32_t code, bool counts) {
    owner.reset(stream, code);
    stream.closed(code, false);
    return counts ? count_error(owner) : 0;
  }

  /// Counts a broken stream; the session ends if there are too many.
  static int count_error(Http2Session& owner) {
    const bool tolerated = owner.check_verdict(owner.guard_.stream_error(owner.loop().now()));
    return tolerated ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int data_chunk(nghttp2_session* session, std::uint8_t, std::int32_t id,
                        const std::uint8_t* data, std::size_t size, void* user_data) {
    Http2Session& owner = session_of(user_data);
    Http2Stream* stream = stream_of(session, id);
    if (stream != nullptr && !stream->check_.data(size)) {
      nghttp2_session_consume_connection(session, size);
      return refuse_body(owner, *stream);
    }
    owner.receive_data(stream, view_of(data, size));
    return 0;
  }

  static int section_received(Http2Session& owner, const nghttp2_frame* frame) {
    Http2Stream* stream = std::exchange(owner.section_, nullptr);
    if (stream == nullptr) return 0;
    const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!stream->check_.end_section(last)) return refuse_malformed(owner, *stream);
    owner.peer_.last_message = owner.loop().now();
    const bool request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (const auto priority = owner.section_priority_.value(); request && priority) [[unlikely]] {
      const nghttp2_extpri given{priority->urgency, priority->incremental};
      nghttp2_session_change_extpri_stream_priority(owner.session_, stream->id_, &given, 0);
    }
    stream->headers_complete(last);
    return owner.ending_.violation ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static void limit_hpack_table(Http2Session& owner, const nghttp2_settings& settings) {
    for (std::size_t i = 0; i < settings.niv; ++i) {
      const nghttp2_settings_entry& entry = settings.iv[i];
      if (entry.settings_id == NGHTTP2_SETTINGS_HEADER_TABLE_SIZE) {
        owner.output_.limit_table(entry.value);
      }
    }
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    Http2Session& owner = session_of(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS: return section_received(owner, frame);
      case NGHTTP2_DATA:
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
          Http2Stream* stream = stream_of(session, frame->hd.stream_id);
          if (stream == nullptr) break;
          if (!stream->check_.end()) return refuse_body(owner, *stream);
          stream->mark_remote_end();
        }
        break;
      case NGHTTP2_RST_STREAM: owner.reset_by_peer_ = frame->hd.stream_id; break;
      case NGHTTP2_WINDOW_UPDATE: {
        const auto increment = frame->window_update.window_size_increment;
        if (!owner.check_verdict(owner.guard_.window_update(increment, owner.loop().now()))) {
          return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        break;
      }
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          owner.peer_.settings_acknowledged = true;
          owner.peer_.ping_unanswered = false;
        } else {
          limit_hpack_table(owner, frame->settings);
          owner.side_.on_event(Http2Event::settings_received);
        }
        break;
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          owner.peer_.ping_unanswered = false;
          owner.side_.on_event(Http2Event::ping_answered);
        }
        break;
      case NGHTTP2_GOAWAY:
        owner.peer_.goaway = frame->goaway.error_code;
        owner.side_.on_event(Http2Event::goaway_received);
        break;
      default: break;
    }
    return 0;
  }

  static int invalid_frame(nghttp2_session* session, const nghttp2_frame* frame, int,
                           void* user_data) {
    Http2Session& owner = session_of(user_data);
    // nghttp2 resets or has refused the stream; frames already sent on it are not violations.
    owner.guard_.closed(frame->hd.stream_id, Http2Guard::Closed::by_us);
    if (Http2Stream* stream = stream_of(session, frame->hd.stream_id)) stream->invalid_ = true;
    return count_error(owner);
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) {
    const bool headers = frame->hd.type == NGHTTP2_HEADERS;
    if (!headers && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Session& owner = session_of(user_data);
    if (headers) owner.guard_.sent_message_frame(0);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    stream->end_written_ = true;
    if (!stream->reset_when_sent_) return 0;
    owner.reset(*stream, *stream->reset_when_sent_);
    stream->closed(*stream->reset_when_sent_, false);
    return 0;
  }

  /// Called when nghttp2 will not send a head: the stream must not wait for it.
  static int frame_not_sent(nghttp2_session* session, const nghttp2_frame* frame, int error,
                            void* user_data) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    Http2Session& owner = session_of(user_data);
    owner.output_.take_section(frame->hd.stream_id);
    if (error == NGHTTP2_ERR_STREAM_CLOSED || error == NGHTTP2_ERR_STREAM_CLOSING) return 0;
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const bool request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (request && error == NGHTTP2_ERR_START_STREAM_NOT_ALLOWED) return 0;  // after a GOAWAY
    stream->fail_with({.fault = Fault::internal, .detail = nghttp2_strerror(error)});
    if (request) return 0;  // the peer has not seen the stream; nghttp2 closes it
    owner.reset(*stream, NGHTTP2_INTERNAL_ERROR);
    stream->closed(NGHTTP2_INTERNAL_ERROR, false);
    return 0;
  }

  static int stream_closed(nghttp2_session* session, std::int32_t id, std::uint32_t code,
                           void* user_data) {
    Http2Session& owner = session_of(user_data);
    Http2Stream* stream = stream_of(session, id);
    using Closed = Http2Guard::Closed;
    const bool by_peer = id == owner.reset_by_peer_;
    const bool in_order = code == NGHTTP2_NO_ERROR;
    // Resets by us or by nghttp2 were counted when they happened.
    if (by_peer) {
      owner.guard_.closed(id, Closed::by_peer);
      const bool gave_up = stream != nullptr && stream->end_written_ && !stream->in_.ended();
      if (gave_up) owner.guard_.reset_after_answer();
    } else if (stream != nullptr && !stream->invalid_) {
      owner.guard_.closed(id, in_order ? Closed::done : Closed::by_us);
    }
    if (owner.settings_.side == Http2Guard::Side::client) --owner.open_streams_;
    if (stream == nullptr) return 0;
    stream->attached_ = false;
    if (owner.section_ == stream) owner.section_ = nullptr;
    // A SETTINGS that makes a window overflow is a connection error (RFC 9113 6.9.2). nghttp2 only
    // resets the streams, without an invalid-frame callback.
    const bool by_nghttp2 = !by_peer && !stream->invalid_;
    const bool overflow = by_nghttp2 && code == NGHTTP2_FLOW_CONTROL_ERROR;
    stream->closed(code, by_peer);
    Http2Guard::Verdict verdict;
    if (overflow) verdict = {NGHTTP2_FLOW_CONTROL_ERROR, "a flow-control window overflows"};
    return owner.check_verdict(verdict) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static ssize_t read_data(nghttp2_session* session, std::int32_t id, std::uint8_t*,
                           std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                           void* user_data) {
    Http2Stream* stream = stream_of(session, id);
    if (stream == nullptr) return NGHTTP2_ERR_DEFERRED;  // about to be reset
    if (stream->pending_.empty() && !stream->last_) {
      stream->deferred_ = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    Http2Session& owner = session_of(user_data);
    const auto given = owner.output_.room_for_data(std::min(size, stream->pending_.size()));
    if (!given) return NGHTTP2_ERR_PAUSE;  // flush first
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->last_ && *given == stream->pending_.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (stream->pending_trailers_ != nullptr) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (owner.submit_trailers(*stream) != 0) return NGHTTP2_ERR_CALLBACK_FAILURE;
      }
    }
    return static_cast<ssize_t>(*given);
  }

  static int send_data(nghttp2_session* session, nghttp2_frame* frame, const std::uint8_t* head,
                       std::size_t size, nghttp2_data_source*, void* user_data) {
    Http2Session& owner = session_of(user_data);
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    // `read_data` has reserved the room; nothing runs in between.
    if (stream == nullptr) return NGHTTP2_ERR_CALLBACK_FAILURE;
    owner.output_.put_data(head, stream->pending_.substr(0, size));
    owner.guard_.sent_message_frame(size);
    stream->pending_.remove_prefix(size);
    stream->sent_ += size;
    stream->last_progress_ = owner.loop().now();
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

namespace {

/// Serves nghttp2's allocations, some twenty per request, from the thread's free lists. The size,
/// which freeing needs, precedes each piece.
struct PooledMemory {
  static constexpr std::size_t prefix_bytes = alignof(std::max_align_t);

  static void* take(std::size_t size, void*) {
    char* raw = static_cast<char*>(allocate_pooled(size + prefix_bytes));
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
    return std::memset(take(count * size, nullptr), 0, count * size);
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
  nghttp2_option_set_no_http_messaging(option, 1);  // Http2MessageCheck does it
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_deflate_dynamic_table_size(option, 0);  // HpackEncoder has the table
  // Http2Guard counts resets, and tolerates those of gRPC clients.
  nghttp2_option_set_stream_reset_rate_limit(option, 1'000'000, 1'000'000);
  return option;
}

}  // namespace

nghttp2_session* make_nghttp2_session(Http2Session& owner, Http2Guard::Side side) {
  static nghttp2_session_callbacks* const callbacks = Http2Callbacks::make();
  static nghttp2_option* const options = make_options();
  const auto make =
      side == Http2Guard::Side::server ? nghttp2_session_server_new3 : nghttp2_session_client_new3;
  nghttp2_session* session = nullptr;
  if (make(&session, callbacks, &owner, options, &pooled_memory) != 0) out_of_memory();
  return session;
}

nghttp2_data_provider nghttp2_body_source() { return {{}, Http2Callbacks::read_data}; }

}  // namespace evenkeel
