#include "http2_stream.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <utility>

#include "backend_exchange.h"
#include "http2_callbacks.h"
#include "http2_message.h"
#include "yield_counter.h"

namespace evenkeel {
namespace {

/// Bytes that must move within a write timeout: a peer that opens its window byte by byte would
/// hold our memory for nothing.
constexpr std::uint64_t min_progress_bytes = 1024;

/// Whether a peer takes what is offered to it: something at least once in a timeout, and enough in
/// each.
class WriteProgress {
 public:
  /// `sent`: bytes of the stream so far.
  WriteProgress(Instant now, std::uint64_t sent, Duration timeout)
      : offered_(now), since_(now), sent_before_(sent), timeout_(timeout) {}

  /// When the peer may have taken too little. `last`: when it last took anything.
  Instant deadline(Instant last) const {
    return std::min(since_, std::max(offered_, last)) + timeout_;
  }
  /// True if the peer has taken too little. REQUIRES: the deadline has passed.
  bool stalls(Instant now, std::uint64_t sent, Instant last) {
    if (now >= std::max(offered_, last) + timeout_) return true;
    if (now < since_ + timeout_) return false;
    since_ = now;
    return sent - std::exchange(sent_before_, sent) < min_progress_bytes;
  }

 private:
  Instant offered_;
  Instant since_;  // when `sent_before_` was counted
  std::uint64_t sent_before_;
  Duration timeout_;
};

}  // namespace

std::optional<Result<Chunk>> Http2Stream::take() {
  auto chunk = in_.take();
  if (chunk) {
    if (chunk->last && has_trailers()) chunk->trailers = &trailers_;
    return Result<Chunk>(*chunk);
  }
  if (failure_) return Result<Chunk>(Error(*failure_));
  in_.adapt_window();
  return std::nullopt;
}

void Http2Stream::fail_with(Error error) {
  if (!failure_) failure_ = std::move(error);
  arrived_.raise();
  write_progress_.raise();
}

void Http2Stream::submit_response(std::unique_ptr<Http2Section> head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  if (nghttp2_submit_response(session_.session_, id_, nullptr, 0, last ? nullptr : &body) == 0) {
    session_.output_.queue_section(id_, std::move(head));
  }
  end_sent_ = last;
}

void Http2Stream::submit_interim(std::unique_ptr<Http2Section> head) {
  if (nghttp2_submit_headers(session_.session_, NGHTTP2_FLAG_NONE, id_, nullptr, nullptr, 0,
                             nullptr) == 0) {
    session_.output_.queue_section(id_, std::move(head));
  }
}

void Http2Stream::submit_request(std::unique_ptr<Http2Section> head, bool last) {
  const nghttp2_data_provider body = nghttp2_body_source();
  id_ =
      nghttp2_submit_request(session_.session_, nullptr, nullptr, 0, last ? nullptr : &body, this);
  attached_ = id_ > 0;
  if (attached_) {
    ++session_.open_streams_;
    session_.output_.queue_section(id_, std::move(head));
  }
  end_sent_ = last;
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

/// True if the peer's windows leave room.
bool Http2Stream::peer_lets_send() const {
  nghttp2_session* const nghttp2 = session_.session_;
  return nghttp2_session_get_remote_window_size(nghttp2) > 0 &&
         nghttp2_session_get_stream_remote_window_size(nghttp2, id_) > 0;
}

Task<Result<Done>> Http2Stream::pump(Body& body, Task<Result<Chunk>> next, Duration timeout,
                                     UploadWaits* waits, SharedCount* waiting) {
  Loop& loop = session_.loop();
  YieldCounter steps;
  while (true) {
    std::optional<UploadWaits::Wait> wait;
    if (!next.ready()) {
      steps.waited();
      if (waits != nullptr) wait.emplace(*waits, loop, waiting);
    }
    auto chunk = co_await next;
    wait.reset();
    if (!chunk) co_return std::move(chunk.error());
    if (!attached_) break;
    set_chunk(*chunk);
    WriteProgress progress(loop.now(), sent_, timeout);
    while (!all_sent() && attached_) {
      auto wake = co_await write_progress_.wait(progress.deadline(last_progress_));
      if (wake != Wake::expired || all_sent()) continue;
      const bool socket_is_busy = session_.writing_.valid() && !session_.writing_.ready();
      if (socket_is_busy && peer_lets_send()) {
        progress = WriteProgress(loop.now(), sent_, timeout);  // the socket's own timeout counts
      } else if (progress.stalls(loop.now(), sent_, last_progress_)) {
        co_return Error{.fault = Fault::write_timeout,
                        .side = Side::client,
                        .detail = "the peer reads nothing"};
      }
    }
    if (!all_sent()) break;
    if (chunk->last) co_return Done{};
    if (steps.is_due()) {
      co_await loop.yield();
      if (!attached_) break;
    }
    next = body.read();
  }
  if (failure_) co_return Error(*failure_);
  co_return Error{
      .fault = Fault::client_gone, .side = Side::client, .detail = "the stream has ended"};
}

}  // namespace evenkeel
