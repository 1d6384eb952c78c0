// What an HTTP/2 session writes: nghttp2's frames, with header blocks of our own.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <utility>

#include "http2_callbacks.h"
#include "http2_message.h"
#include "http2_session.h"
#include "http2_stream.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_payload_bytes = 16 * 1024;  // every peer accepts it
static_assert(Http2FrameHeader::size + max_payload_bytes <= max_frame_bytes);

void put_length(char* frame, std::size_t length) {
  for (unsigned i = 0; i < 3; ++i) frame[i] = static_cast<char>(length >> (16 - 8 * i));
}

}  // namespace

void Http2Session::queue_section(std::int32_t stream, std::unique_ptr<Http2Section> section) {
  section->stream = stream;
  section.release()->insert_before(sections_);
}

/// The oldest one of the stream.
std::unique_ptr<Http2Section> Http2Session::take_section(std::int32_t stream) {
  for (Node* node = sections_.next; node != &sections_; node = node->next) {
    auto* section = static_cast<Http2Section*>(node);
    if (section->stream != stream) continue;
    section->unlink();
    return std::unique_ptr<Http2Section>(section);
  }
  return nullptr;
}

int Http2Session::submit_trailers(Http2Stream& stream) {
  auto section = std::make_unique<Http2Section>(Http2Section::Values::copied);
  section->add_all(*stream.pending_trailers_);
  const int result = nghttp2_submit_trailer(session_, stream.id_, nullptr, 0);
  if (result == 0) queue_section(stream.id_, std::move(section));
  return result;
}

/// Puts the fields into a HEADERS frame, which nghttp2 writes without any, and returns its size.
/// What does not fit is left for `continue_section`. 0: no fields are queued for it.
std::size_t Http2Session::complete_headers(char* frame) {
  const std::int32_t stream = Http2FrameHeader::parse(frame).stream;
  const auto section = take_section(stream);
  assert(section != nullptr);
  if (section == nullptr) return 0;
  // nghttp2's block, which is overwritten, says at most that it uses no table.
  char* const block = frame + Http2FrameHeader::size;
  const std::size_t bound = HpackEncoder::max_bytes(section->fields());
  std::size_t size = 0;
  if (bound <= max_payload_bytes) [[likely]] {
    size = static_cast<std::size_t>(encoder_.encode(section->fields(), block) - block);
  } else {
    std::string whole(bound, '\0');
    whole.resize(
        static_cast<std::size_t>(encoder_.encode(section->fields(), whole.data()) - whole.data()));
    size = std::min(whole.size(), max_payload_bytes);
    std::memcpy(block, whole.data(), size);
    unsent_block_.assign(whole, size);
    unsent_block_stream_ = stream;
    if (!unsent_block_.empty()) frame[4] &= static_cast<char>(~NGHTTP2_FLAG_END_HEADERS);
  }
  put_length(frame, size);
  return Http2FrameHeader::size + size;
}

/// Writes a CONTINUATION frame with the rest of a header block, or a part of it.
void Http2Session::continue_section() {
  char* const frame = out_.data() + out_size_;
  const std::size_t size = std::min(unsent_block_.size(), max_payload_bytes);
  const bool last = size == unsent_block_.size();
  put_length(frame, size);
  frame[3] = NGHTTP2_CONTINUATION;
  frame[4] = last ? NGHTTP2_FLAG_END_HEADERS : NGHTTP2_FLAG_NONE;
  for (unsigned i = 0; i < 4; ++i) {
    frame[5 + i] = static_cast<char>(unsent_block_stream_ >> (24 - 8 * i));
  }
  std::memcpy(frame + Http2FrameHeader::size, unsent_block_.data(), size);
  if (last) {
    unsent_block_ = {};  // with its memory
  } else {
    unsent_block_.erase(0, size);
  }
  out_size_ += static_cast<std::uint32_t>(Http2FrameHeader::size + size);
}

/// Lets nghttp2 write frames into `out_` until it has none left or there is no room.
bool Http2Session::fill() {
  if (!out_) out_ = Block::take(Block::large);
  while (out_size_ + 2 * max_frame_bytes <= out_.size()) {
    if (!unsent_block_.empty()) [[unlikely]] {
      continue_section();
      continue;
    }
    const std::uint8_t* frame = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &frame);
    if (size < 0) return false;
    if (size == 0) break;
    assert(out_size_ + static_cast<std::size_t>(size) <= out_.size());
    char* const written = out_.data() + out_size_;
    std::memcpy(written, frame, static_cast<std::size_t>(size));
    const bool headers = written[3] == NGHTTP2_HEADERS;
    const auto whole = headers ? complete_headers(written) : static_cast<std::size_t>(size);
    if (whole == 0) return false;
    out_size_ += static_cast<std::uint32_t>(whole);
  }
  return true;
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
    if (!fill()) {
      if (violation_) {
        side_.on_event(Http2Event::violation);
        send_goaway(violation_->code, violation_->detail);
      } else {
        failure_ = "frames could not be written";
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
      closed_by_peer_ = true;
      end();
      return;
    }
  }
  out_ = Block();
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
  out_size_ = 0;
  if (written) {
    want_flush();
  } else {
    failure_ = "the peer reads nothing";
    closed_by_peer_ = written.error().fault != Fault::write_timeout;
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

}  // namespace evenkeel
