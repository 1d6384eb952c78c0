#include "http2_stream.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "http2_callbacks.h"
#include "http2_message.h"

namespace evenkeel {
namespace {

constexpr int chunks_between_yields = 16;  // of a body that is always ready
/// Bytes that must move within a write timeout: a peer that opens its window byte by byte would
/// hold our memory for nothing.
constexpr std::uint64_t min_progress_bytes = 1024;
/// A response whose backend sends a window of it within this time, which is more than a round trip
/// to it takes, may be limited by the window.
constexpr Duration fast_window = std::chrono::milliseconds(250);
/// A response that was not as fast for so long needs no wide window.
constexpr Duration slow_after = std::chrono::seconds(5);

}  // namespace

bool Http2Stream::append(std::string_view bytes) {
  const std::size_t arriving = bytes.size();
  if (received_ == 0) counts_since_ = session_.loop().now();
  received_ += arriving;
  arrived_.raise();
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
std::uint32_t Http2Stream::next_block_size(bool tiny) const {
  if (tiny) return Block::tiny;
  const bool charged = wide_ || session_.settings_.side == Http2Guard::Side::server;
  return blocks_ > 1 && charged ? Block::large : Block::small;
}

/// Lets the peer send as many bytes as the reader has returned, but for those that narrow the
/// window.
void Http2Stream::return_taken() {
  ReadBuffer& front = in_[first_block_];
  front.begin += static_cast<std::uint32_t>(taken_);
  const auto withheld = static_cast<std::uint32_t>(std::min<std::size_t>(withholds_, taken_));
  withholds_ -= withheld;
  session_.consumed(*this, std::exchange(taken_, 0) - withheld);
  if (!front.empty()) return;
  front.release();
  first_block_ = static_cast<std::uint8_t>((first_block_ + 1) % max_blocks);
  --blocks_;
}

/// The reader keeps up, so the window may be what limits the peer. A response takes a wide one, and
/// its share of the budgets, only if its backend sends fast, and gives both back when it no longer
/// does. REQUIRES: everything that has arrived is read.
void Http2Stream::adapt_window() {
  if (!attached_) return;
  const std::uint64_t window = session_.settings_.stream_window;
  if (session_.settings_.side == Http2Guard::Side::server) {
    if (!wide_ && received_ >= window) widen();
    return;
  }
  if (narrowed_) {
    if (withholds_ > 0) return;
    wide_ = false;
    return charge_.give_back();
  }
  const Instant now = session_.loop().now();
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

void Http2Stream::widen() {
  wide_ = true;
  nghttp2_session_set_local_window_size(
      session_.session_, NGHTTP2_FLAG_NONE, id_,
      static_cast<std::int32_t>(session_.settings_.wide_stream_window));
  session_.want_flush();
}

/// The peer may still send what the wide window allows, and gets back less than it sends until
/// then: nghttp2 takes bytes of which it is not told that they are read for unread ones.
void Http2Stream::narrow() {
  if (!session_.settings_acknowledged()) return;  // with that the windows of all streams change
  narrowed_ = true;
  nghttp2_session* const session = session_.session_;
  const auto window = static_cast<std::int32_t>(session_.settings_.stream_window);
  const std::int32_t wide = nghttp2_session_get_stream_effective_local_window_size(session, id_);
  if (wide <= window) return;
  withholds_ = static_cast<std::uint32_t>(wide - window);
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, id_, window);
}

std::optional<Result<Chunk>> Http2Stream::take() {
  if (taken_ > 0 && !rewound_) return_taken();
  rewound_ = false;
  if (blocks_ == 0 && !remote_ended_) {
    if (broken_) return Result<Chunk>(Error(*broken_));
    adapt_window();
    return std::nullopt;
  }
  if (reads_ < 2) ++reads_;
  Chunk chunk{.last = remote_ended_ && blocks_ <= 1};
  if (blocks_ > 0) {
    chunk.bytes = in_[first_block_].bytes();
    taken_ = chunk.bytes.size();
  }
  if (chunk.last && trailers_.size() > 0) chunk.trailers = &trailers_;
  delivered_last_ = chunk.last;
  return Result<Chunk>(chunk);
}

bool Http2Stream::rewind() {
  if (reads_ == 0) return true;
  rewound_ = reads_ == 1 && delivered_last_;
  if (rewound_) reads_ = 0;
  return rewound_;
}

void Http2Stream::fail_with(Error error) {
  if (!broken_) broken_ = std::move(error);
  arrived_.raise();
  write_progress_.raise();
}

void Http2Stream::submit_response(std::unique_ptr<Http2Section> head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  if (nghttp2_submit_response(session_.session_, id_, nullptr, 0, last ? nullptr : &body) == 0) {
    session_.queue_section(id_, std::move(head));
  }
  end_sent_ = last;
}

void Http2Stream::submit_interim(std::unique_ptr<Http2Section> head) {
  if (nghttp2_submit_headers(session_.session_, NGHTTP2_FLAG_NONE, id_, nullptr, nullptr, 0,
                             nullptr) == 0) {
    session_.queue_section(id_, std::move(head));
  }
}

bool Http2Stream::submit_request(std::unique_ptr<Http2Section> head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  id_ =
      nghttp2_submit_request(session_.session_, nullptr, nullptr, 0, last ? nullptr : &body, this);
  attached_ = id_ > 0;
  if (attached_) {
    ++session_.open_streams_;
    session_.queue_section(id_, std::move(head));
  }
  end_sent_ = last;
  return attached_;
}

void Http2Stream::set_chunk(const Chunk& chunk) {
  pending_ = chunk.bytes;
  last_ = chunk.last;
  pending_trailers_ = chunk.last && chunk.trailers != nullptr && chunk.trailers->size() > 0
                          ? chunk.trailers
                          : nullptr;
  if (!deferred_) return;  // nghttp2 reads it on its next send
  if (pending_.empty() && pending_trailers_ != nullptr) {
    // Trailers alone: no empty DATA before them.
    if (session_.submit_trailers(*this) == 0) end_sent_ = true;
  } else {
    deferred_ = false;
    nghttp2_session_resume_data(session_.session_, id_);
  }
  session_.want_flush();
}

Task<Result<Done>> Http2Stream::pump(Body& body, Task<Result<Chunk>> next, Duration timeout,
                                     SharedCount* waiting) {
  int without_waiting = 0;
  while (true) {
    std::optional<Counted> counted;
    if (!next.ready()) {
      without_waiting = 0;
      awaits_body_since_ = session_.loop().now();
      counted.emplace(waiting);
    }
    auto chunk = co_await next;
    counted.reset();
    if (awaits_body_since_ != never) {
      awaited_body_ += session_.loop().now() - awaits_body_since_;
      awaits_body_since_ = never;
    }
    if (!chunk) co_return std::move(chunk.error());
    if (!attached_) break;
    set_chunk(*chunk);
    while (!all_sent() && attached_) {
      const std::uint64_t before = sent_;
      auto wake = co_await write_progress_.wait(session_.loop().now() + timeout);
      const bool stalls = wake == Wake::expired && sent_ - before < min_progress_bytes &&
                          (!session_.writing_.valid() || session_.writing_.ready());
      if (stalls && !all_sent()) {
        co_return Error{.fault = Fault::write_timeout,
                        .side = Side::client,
                        .detail = "the peer reads nothing"};
      }
    }
    if (!all_sent()) break;
    if (chunk->last) co_return Done{};
    if (++without_waiting == chunks_between_yields) {
      without_waiting = 0;
      co_await session_.loop().yield();
      if (!attached_) break;
    }
    next = body.read();
  }
  if (broken_) co_return Error(*broken_);
  co_return Error{
      .fault = Fault::client_gone, .side = Side::client, .detail = "the stream has ended"};
}

}  // namespace evenkeel
