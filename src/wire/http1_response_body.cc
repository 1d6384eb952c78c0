// How the body of a response is read from a backend's connection of HTTP/1.
#include <algorithm>
#include <cstring>

#include "http1_link.h"
#include "response_body.h"

namespace evenkeel {

class Http1Link::ResponseReader final : public ResponseBody<ResponseReader> {
 public:
  ResponseReader(Http1Link& link, const Framing& framing, bool tunnel, ConnectionBudget* budget);
  ~ResponseReader() override { link_.finish(finished_); }

  std::optional<std::uint64_t> length() const override {
    return kind_ == Framing::Kind::length ? std::optional(length_) : std::nullopt;
  }

  // ---- as its base reads it ----
  std::optional<Result<Chunk>> take();
  Watch::Wait arrival(Instant deadline) { return link_.watch().until_readable(deadline); }
  std::optional<Error> upload_failure() { return link_.upload_.take_failure(); }
  Instant last_upload_progress() const { return link_.upload_.last_progress(); }

 private:
  std::optional<Result<Chunk>> take_buffered();
  std::optional<Result<Chunk>> take_joined();
  std::optional<Result<Chunk>> deliver(char* bytes, std::size_t size, std::uint32_t& begin);
  std::optional<Result<Chunk>> deliver_from(ReadBuffer& buffer);
  Error broken(const char* detail);

  Http1Link& link_;
  Framing::Kind kind_;
  bool finished_;
  std::uint64_t left_;
  std::uint64_t length_;
  bool outgrown_ = false;  // the body has filled the block of the head
  ResponseBuffer large_;
  ChunkedDecoder decoder_;
};

Http1Link::ResponseReader::ResponseReader(Http1Link& link, const Framing& framing, bool tunnel,
                                          ConnectionBudget* budget)
    : ResponseBody(link.loop(), link.exchange_, !tunnel && framing.kind != Framing::Kind::length),
      link_(link),
      kind_(framing.kind),
      finished_(framing.is_empty()),
      left_(framing.length),
      length_(framing.length),
      large_(budget) {
  if (finished_ && !link.in_.empty()) link.reusable_ = false;
}

/// Makes a chunk of bytes that were read; nothing while they hold no payload.
std::optional<Result<Chunk>> Http1Link::ResponseReader::deliver(char* bytes, std::size_t size,
                                                                std::uint32_t& begin) {
  Chunk chunk;
  switch (kind_) {
    case Framing::Kind::chunked: {
      const auto decoded = decoder_.decode(bytes, size);
      begin += static_cast<std::uint32_t>(decoded.consumed);
      if (decoded.step == ChunkedDecoder::Step::failed) {
        return backend_error(Fault::backend_protocol, decoder_.detail());
      }
      chunk.bytes = decoded.payload;
      chunk.last = decoded.step == ChunkedDecoder::Step::done;
      if (chunk.last && decoder_.trailers().size() > 0) chunk.trailers = &decoder_.trailers();
      if (chunk.bytes.empty() && !chunk.last) return std::nullopt;
      break;
    }
    case Framing::Kind::length: {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size));
      chunk.bytes = {bytes, taken};
      begin += static_cast<std::uint32_t>(taken);
      left_ -= taken;
      chunk.last = left_ == 0;
      break;
    }
    case Framing::Kind::until_close:
    case Framing::Kind::none:
      chunk.bytes = {bytes, size};
      begin += static_cast<std::uint32_t>(size);
      break;
  }
  finished_ = chunk.last;
  awaits_beginning_ = false;
  return chunk;
}

std::optional<Result<Chunk>> Http1Link::ResponseReader::deliver_from(ReadBuffer& buffer) {
  auto chunk = deliver(buffer.block.data() + buffer.begin, buffer.end - buffer.begin, buffer.begin);
  if (finished_ && !buffer.empty()) link_.reusable_ = false;  // unexpected bytes after the message
  return chunk;
}

std::optional<Result<Chunk>> Http1Link::ResponseReader::take_buffered() {
  if (link_.in_.empty()) return std::nullopt;
  if (auto chunk = take_joined()) return chunk;
  return deliver_from(link_.in_);
}

/// Where the beginning of a long body lies behind its head, and the next part has come: both, in a
/// large block, so that one call sends them, which costs more than the copy.
std::optional<Result<Chunk>> Http1Link::ResponseReader::take_joined() {
  const std::string_view here = link_.in_.bytes();
  if (kind_ != Framing::Kind::length || left_ <= Block::small || left_ <= here.size() ||
      !link_.watch().readable()) {
    return std::nullopt;
  }
  large_.take(left_, true);
  if (!large_.block) return std::nullopt;
  std::memcpy(large_.block.data(), here.data(), here.size());
  link_.in_.begin = link_.in_.end;
  large_.begin = 0;
  large_.end = static_cast<std::uint32_t>(here.size());
  // Whether the connection has ended is found by the next read.
  large_.end += static_cast<std::uint32_t>(
      link_.socket_->read_some(large_.free_begin(), large_.free_size()).size);
  outgrown_ = true;
  return deliver_from(large_);
}

/// The next chunk if it can be read without waiting.
std::optional<Result<Chunk>> Http1Link::ResponseReader::take() {
  if (finished_) return Chunk{.last = true};
  if (auto chunk = take_buffered()) return chunk;
  ReadBuffer& in = link_.in_;
  while (link_.watch().readable()) {
    const bool fits = in.block.size() - link_.body_begin_ >= min_body_room;
    if (outgrown_ || !fits) large_.take(kind_ == Framing::Kind::length ? left_ : 0, fits);
    const bool here = !large_.block;
    if (here) {
      in.begin = in.end = link_.body_begin_;  // its bytes were consumed
    } else {
      large_.begin = large_.end = 0;
    }
    ReadBuffer& into = here ? in : large_;
    const std::size_t available_capacity = into.free_size();
    const auto got = link_.socket_->read_some(into.free_begin(), available_capacity);
    switch (got.status) {
      case Socket::ReadStatus::would_block: large_.release(); return std::nullopt;
      case Socket::ReadStatus::end:
        if (kind_ == Framing::Kind::until_close) {
          finished_ = true;
          return Chunk{.last = true};
        }
        return broken("the backend closed the connection within its response");
      case Socket::ReadStatus::failure:
        return broken("the backend broke the connection within its response");
      case Socket::ReadStatus::bytes: break;
    }
    into.end += static_cast<std::uint32_t>(got.size);
    auto chunk = deliver_from(into);
    outgrown_ = outgrown_ || got.size == available_capacity;
    if (chunk) return chunk;
  }
  large_.release();
  return std::nullopt;
}

/// The error of a response that the backend has cut off.
Error Http1Link::ResponseReader::broken(const char* detail) {
  note_break();
  return backend_error(Fault::backend_closed, detail);
}

BodyPtr Http1Link::read_response(const Framing& framing, bool tunnel, ConnectionBudget* budget) {
  return std::make_unique<ResponseReader>(*this, framing, tunnel, budget);
}

}  // namespace evenkeel
