#include "http2_receive_buffer.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "http2_session.h"
#include "http2_stream.h"

namespace evenkeel {
namespace {

/// A response whose backend sends a window of it within this time, which is more than a round trip
/// to it takes, may be limited by the window.
constexpr Duration fast_window = std::chrono::milliseconds(250);
/// A response that was not as fast for so long needs no wide window.
constexpr Duration slow_after = std::chrono::seconds(5);

}  // namespace

bool Http2ReceiveBuffer::is_response() const {
  return stream_.session().settings().side == Http2Guard::Side::client;
}

bool Http2ReceiveBuffer::append(std::string_view bytes) {
  const std::size_t arriving = bytes.size();
  if (received_ == 0) counts_since_ = stream_.session().loop().now();
  received_ += arriving;
  while (!bytes.empty()) {
    ReadBuffer* back = blocks_ > 0 ? &in_[(first_block_ + blocks_ - 1) % max_blocks] : nullptr;
    if (back == nullptr || back->free_size() == 0) {
      if (blocks_ == max_blocks) return false;  // more than the window allows
      back = &in_[(first_block_ + blocks_++) % max_blocks];
      const bool first = blocks_ == 1 && received_ == arriving;
      back->block = Block::take(next_block_size(first && arriving <= Block::tiny));
      back->begin = back->end = 0;
    }
    const std::size_t size = std::min<std::size_t>(bytes.size(), back->free_size());
    std::memcpy(back->free_begin(), bytes.data(), size);
    back->end += static_cast<std::uint32_t>(size);
    bytes.remove_prefix(size);
  }
  return true;
}

/// The size of the block that becomes the last of `blocks_`. A response has a large block only with
/// a wide window, which it was charged for.
std::uint32_t Http2ReceiveBuffer::next_block_size(bool tiny) const {
  if (tiny) return Block::tiny;
  return blocks_ > 1 && (wide_ || !is_response()) ? Block::large : Block::small;
}

/// Lets the peer send as many bytes as the reader has returned, but for those that narrow the
/// window.
void Http2ReceiveBuffer::return_taken() {
  ReadBuffer& front = in_[first_block_];
  front.begin += static_cast<std::uint32_t>(taken_);
  const auto withheld = static_cast<std::uint32_t>(std::min<std::size_t>(withholds_, taken_));
  withholds_ -= withheld;
  stream_.session().consumed(stream_, std::exchange(taken_, 0) - withheld);
  if (!front.empty()) return;
  front.release();
  first_block_ = static_cast<std::uint8_t>((first_block_ + 1) % max_blocks);
  --blocks_;
}

std::optional<Chunk> Http2ReceiveBuffer::take() {
  if (taken_ > 0 && !rewound_) return_taken();
  rewound_ = false;
  if (blocks_ == 0 && !ended_) return std::nullopt;
  if (reads_ < 2) ++reads_;
  Chunk chunk{.last = ended_ && blocks_ <= 1};
  if (blocks_ > 0) {
    chunk.bytes = in_[first_block_].bytes();
    taken_ = chunk.bytes.size();
  }
  delivered_last_ = chunk.last;
  return chunk;
}

bool Http2ReceiveBuffer::rewind() {
  if (reads_ == 0) return true;
  rewound_ = reads_ == 1 && delivered_last_;
  if (rewound_) reads_ = 0;
  return rewound_;
}

// ---- the window -------------------------------------------------------------------------------

/// The reader keeps up, so the window may be what limits the peer.
void Http2ReceiveBuffer::adapt_window() {
  if (!stream_.attached()) return;
  const std::uint64_t window = stream_.session().settings().stream_window;
  if (is_response()) {
    adapt_response_window(window);
  } else if (!wide_ && received_ >= window) {
    widen();
  }
}

/// A response takes a wide window, and its share of the budgets, only if its backend sends fast,
/// and gives both back when it no longer does.
void Http2ReceiveBuffer::adapt_response_window(std::uint64_t window) {
  if (narrowed_) {
    if (withholds_ > 0) return;
    wide_ = false;
    return charge_.give_back();
  }
  const Instant now = stream_.session().loop().now();
  const bool full = received_ - received_before_ >= window;
  const bool in_time = now - counts_since_ <= fast_window;
  if (full && in_time) {
    last_fast_ = now;
    if (!wide_ && charge_.take(Block::large)) widen();
  } else if (wide_ && now - last_fast_ >= slow_after) {
    narrow();
  }
  if (full || !in_time) {
    received_before_ = received_;
    counts_since_ = now;
  }
}

void Http2ReceiveBuffer::widen() {
  wide_ = true;
  Http2Session& session = stream_.session();
  nghttp2_session_set_local_window_size(
      session.nghttp2(), NGHTTP2_FLAG_NONE, stream_.id(),
      static_cast<std::int32_t>(session.settings().wide_stream_window));
  session.want_flush();
}

/// The peer may still send what the wide window allows, and gets back less than it sends until
/// then: nghttp2 takes bytes of which it is not told that they are read for unread ones.
void Http2ReceiveBuffer::narrow() {
  Http2Session& session = stream_.session();
  // With the acknowledgement the windows of all streams change.
  if (!session.peer().settings_acknowledged) return;
  narrowed_ = true;
  const auto window = static_cast<std::int32_t>(session.settings().stream_window);
  const std::int32_t wide =
      nghttp2_session_get_stream_effective_local_window_size(session.nghttp2(), stream_.id());
  if (wide <= window) return;
  withholds_ = static_cast<std::uint32_t>(wide - window);
  nghttp2_session_set_local_window_size(session.nghttp2(), NGHTTP2_FLAG_NONE, stream_.id(), window);
}

}  // namespace evenkeel
