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

}  // namespace

bool Http2Stream::append(std::string_view bytes) {
  const std::size_t arriving = bytes.size();
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

/// For a block that is the last of `blocks_`. A response has a large block only with a wide window,
/// which it was charged for.
std::uint32_t Http2Stream::next_block_size(bool tiny) const {
  if (tiny) return Block::tiny;
  const bool charged = wide_ || session_.settings_.side == Http2Guard::Side::server;
  return blocks_ > 1 && charged ? Block::large : Block::small;
}

/// A response's wide window takes from the budgets, as long as they last.
bool Http2Stream::may_widen() {
  return session_.settings_.side == Http2Guard::Side::server || charge_.take(Block::large);
}

std::optional<Result<Chunk>> Http2Stream::take() {
  if (taken_ > 0 && !rewound_) {
    ReadBuffer& front = in_[first_block_];
    front.begin += static_cast<std::uint32_t>(taken_);
    session_.consumed(*this, std::exchange(taken_, 0));
    if (front.empty()) {
      front.release();
      first_block_ = static_cast<std::uint8_t>((first_block_ + 1) % max_blocks);
      --blocks_;
    }
  }
  rewound_ = false;
  if (blocks_ == 0 && !remote_ended_) {
    if (broken_) return Result<Chunk>(Error(*broken_));
    // The reader keeps up, so the window limits the peer: widen it.
    const Http2Settings& settings = session_.settings_;
    if (!wide_ && attached_ && received_ >= settings.stream_window && may_widen()) {
      wide_ = true;
      nghttp2_session_set_local_window_size(session_.session_, NGHTTP2_FLAG_NONE, id_,
                                            static_cast<std::int32_t>(settings.wide_stream_window));
      session_.want_flush();
    }
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

void Http2Stream::submit_response(const Http2HeaderBlock& head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  nghttp2_submit_response(session_.session_, id_, head.data(), head.size(), last ? nullptr : &body);
  end_sent_ = last;
}

bool Http2Stream::submit_request(const Http2HeaderBlock& head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  id_ = nghttp2_submit_request(session_.session_, nullptr, head.data(), head.size(),
                               last ? nullptr : &body, this);
  attached_ = id_ > 0;
  if (attached_) ++session_.open_streams_;
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
