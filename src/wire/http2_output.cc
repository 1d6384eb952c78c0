#include "http2_output.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "http2_guard.h"
#include "http2_message.h"

namespace evenkeel {
namespace {

/// The most that nghttp2 writes at a time: a little more than the smallest allowed maximum of a
/// frame.
constexpr std::size_t max_frame_bytes = 16 * 1024 + 64;
constexpr std::size_t max_payload_bytes = 16 * 1024;  // every peer accepts it
static_assert(Http2FrameHeader::size + max_payload_bytes <= max_frame_bytes);
/// Less of a longer body is not worth a frame.
constexpr std::size_t min_data_bytes = 4 * 1024;

void put_length(char* frame, std::size_t length) {
  for (unsigned i = 0; i < 3; ++i) frame[i] = static_cast<char>(length >> (16 - 8 * i));
}

}  // namespace

Http2Output::~Http2Output() {
  while (sections_.linked()) delete static_cast<Http2Section*>(sections_.next);
}

void Http2Output::queue_section(std::int32_t stream, std::unique_ptr<Http2Section> section) {
  section->stream = stream;
  section.release()->insert_before(sections_);
}

std::unique_ptr<Http2Section> Http2Output::take_section(std::int32_t stream) {
  for (Node* node = sections_.next; node != &sections_; node = node->next) {
    auto* section = static_cast<Http2Section*>(node);
    if (section->stream != stream) continue;
    section->unlink();
    return std::unique_ptr<Http2Section>(section);
  }
  return nullptr;
}

/// Puts the fields into a HEADERS frame, which nghttp2 writes without any, and returns its size.
/// What does not fit is left for `continue_section`. 0: no fields are queued for it.
std::size_t Http2Output::complete_headers(char* frame) {
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
void Http2Output::continue_section() {
  char* const frame = out_.data() + size_;
  const std::size_t size = std::min(unsent_block_.size(), max_payload_bytes);
  const bool last = size == unsent_block_.size();
  put_length(frame, size);
  frame[3] = NGHTTP2_CONTINUATION;
  frame[4] = last ? NGHTTP2_FLAG_END_HEADERS : NGHTTP2_FLAG_NONE;
  Http2FrameHeader::put_word(frame + 5, static_cast<std::uint32_t>(unsent_block_stream_));
  std::memcpy(frame + Http2FrameHeader::size, unsent_block_.data(), size);
  if (last) {
    unsent_block_ = {};  // with its memory
  } else {
    unsent_block_.erase(0, size);
  }
  size_ += static_cast<std::uint32_t>(Http2FrameHeader::size + size);
}

bool Http2Output::fill(nghttp2_session* session) {
  if (!out_) out_ = Block::take(Block::large);
  while (size_ + 2 * max_frame_bytes <= out_.size()) {
    if (!unsent_block_.empty()) [[unlikely]] {
      continue_section();
      continue;
    }
    const std::uint8_t* frame = nullptr;
    const auto size = nghttp2_session_mem_send(session, &frame);
    if (size < 0) return false;
    if (size == 0) break;
    assert(size_ + static_cast<std::size_t>(size) <= out_.size());
    char* const written = out_.data() + size_;
    std::memcpy(written, frame, static_cast<std::size_t>(size));
    const bool headers = written[3] == NGHTTP2_HEADERS;
    const auto whole = headers ? complete_headers(written) : static_cast<std::size_t>(size);
    if (whole == 0) return false;
    size_ += static_cast<std::uint32_t>(whole);
  }
  return true;
}

std::optional<std::size_t> Http2Output::room_for_data(std::size_t wanted) const {
  // Another frame may follow in the same call and needs room behind this one.
  const std::size_t used = size_ + Http2FrameHeader::size + max_frame_bytes;
  if (used > out_.size()) return std::nullopt;
  const std::size_t room = out_.size() - used;
  if (room < wanted && room < min_data_bytes) return std::nullopt;
  return std::min(wanted, room);
}

void Http2Output::put_data(const std::uint8_t* head, std::string_view payload) {
  assert(size_ + Http2FrameHeader::size + payload.size() <= out_.size());
  char* const at = out_.data() + size_;
  std::memcpy(at, head, Http2FrameHeader::size);
  if (!payload.empty()) std::memcpy(at + Http2FrameHeader::size, payload.data(), payload.size());
  size_ += static_cast<std::uint32_t>(Http2FrameHeader::size + payload.size());
}

}  // namespace evenkeel
