#include "http1_request_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "message_rules.h"
#include "refusal.h"

namespace evenkeel {

Result<Chunk> Http1RequestBody::fail(Fault fault, std::string detail) {
  broken_ = true;
  return Error{.fault = fault, .side = Side::client, .detail = std::move(detail)};
}

/// Makes a chunk of bytes that were read; nothing while they hold no payload.
std::optional<Result<Chunk>> Http1RequestBody::deliver(char* bytes, std::size_t size,
                                                       std::uint32_t& begin) {
  Chunk chunk;
  if (chunked_) {
    const auto decoded = decoder_.decode(bytes, size);
    begin += static_cast<std::uint32_t>(decoded.consumed);
    if (decoded.step == ChunkedDecoder::Step::failed) {
      return fail(Fault::bad_request, decoder_.detail());
    }
    chunk.bytes = decoded.payload;
    chunk.last = decoded.step == ChunkedDecoder::Step::done;
    if (chunk.last && decoder_.trailers().size() > 0) [[unlikely]] {
      remove_reserved(decoder_.trailers(), info_.identity);
      if (decoder_.trailers().size() > 0) chunk.trailers = &decoder_.trailers();
    }
    total_ += chunk.bytes.size();
    if (!info_.identity.is_streaming && total_ > config_.limits.body_bytes) {
      return fail(Fault::body_too_large, describe_limit(MessageLimit::body, config_));
    }
    if (chunk.bytes.empty() && !chunk.last) return std::nullopt;
  } else {
    const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size));
    chunk.bytes = {bytes, taken};
    begin += static_cast<std::uint32_t>(taken);
    left_ -= taken;
    chunk.last = left_ == 0;
  }
  info_.outcome.bytes_in += chunk.bytes.size();
  finished_ = chunk.last;
  awaits_continue_ = false;
  if (++reads_ == 1 && chunk.last && chunk.trailers == nullptr) first_ = chunk;
  return chunk;
}

std::optional<Result<Chunk>> Http1RequestBody::take_buffered() {
  ReadBuffer& in = transport_.in;
  if (in.empty()) return std::nullopt;
  return deliver(in.block.data() + in.begin, in.end - in.begin, in.begin);
}

Task<Result<Chunk>> Http1RequestBody::read() {
  if (replays_) {
    replays_ = false;
    return Result<Chunk>(first_);
  }
  lent_of_large_ = 0;
  if (continues_in_socket()) {
    move_to_large();
    return std::move(*take_large());
  }
  if (auto chunk = take_buffered()) return std::move(*chunk);
  return read_more();
}

/// True if part of a long body lies behind its head, and the next part has come.
bool Http1RequestBody::continues_in_socket() {
  const ReadBuffer& in = transport_.in;
  return !chunked_ && left_ > Block::small && !in.empty() && left_ > in.end - in.begin &&
         transport_.watch().readable();
}

/// Joins both parts in a large block: one call sends them, which costs more than the copy.
void Http1RequestBody::move_to_large() {
  ReadBuffer& in = transport_.in;
  const std::string_view here = in.bytes();
  need_large();
  std::memcpy(large_.block.data(), here.data(), here.size());
  in.begin = in.end;
  ++reads_;  // `rewind` is for what lies behind the head: nothing counts this memory for it
  const std::size_t room = large_.block.size() - here.size();
  const auto got = transport_.socket->read_some(
      large_.block.data() + here.size(),
      static_cast<std::size_t>(std::min<std::uint64_t>(left_ - here.size(), room)));
  rate_.received(got.size);  // whether the connection has ended is found by the next read
  large_.end = static_cast<std::uint32_t>(here.size() + got.size);
}

void Http1RequestBody::need_large() {
  if (!large_.block) {
    const bool needs_huge = !chunked_ && left_ > Block::large && !Block::huge_ones_are_scarce();
    large_.block = Block::take(needs_huge ? Block::huge : Block::large);
  }
  large_.begin = large_.end = 0;
}

/// Makes a chunk of what was read into the large block, as `deliver` does.
std::optional<Result<Chunk>> Http1RequestBody::take_large() {
  const std::uint32_t size = std::exchange(large_.end, 0);
  auto chunk = deliver(large_.block.data(), size, large_.begin);
  const std::uint32_t consumed = std::exchange(large_.begin, 0);
  if (finished_ && consumed < size) {
    transport_.carried_over = {std::move(large_.block), consumed, size};
  } else if (chunk) {
    lent_of_large_ = size;
  }
  return chunk;
}

/// A block that is almost empty is kept: a copy of its bytes takes less memory.
Block Http1RequestBody::take_block() {
  if (lent_of_large_ == 0 || lent_of_large_ < large_.block.size() / 4) return {};
  lent_of_large_ = 0;
  first_.last = false;  // from now on only the taker can rewind
  return std::move(large_.block);
}

bool Http1RequestBody::rewind() {
  if (reads_ == 0) return !broken_;
  replays_ = reads_ == 1 && first_.last;
  return replays_;
}

/// Reads once: into the block of the head while the body is small, then into a large one.
Socket::Read Http1RequestBody::fill() {
  Http1Transport& t = transport_;
  const bool fits = !chunked_ && left_ <= t.in.block.size() - t.body_begin;
  const bool streams_in = chunked_ && t.in.block.size() - t.body_begin >= min_body_room;
  const bool here = !large_.block && (fits || streams_in);
  if (here) {
    t.in.begin = t.in.end = t.body_begin;  // its bytes were consumed
  } else {
    need_large();
  }
  ReadBuffer& into = here ? t.in : large_;
  const std::size_t room = into.free_size();
  const auto got = t.socket->read_some(
      into.free_begin(),
      chunked_ ? room : static_cast<std::size_t>(std::min<std::uint64_t>(left_, room)));
  into.end += static_cast<std::uint32_t>(got.size);
  if (here && got.size == room) need_large();
  return got;
}

Task<Result<Chunk>> Http1RequestBody::read_more() {
  Http1Transport& t = transport_;
  if (std::exchange(awaits_continue_, false)) t.write_interim("HTTP/1.1 100 Continue\r\n\r\n");
  while (true) {
    if (!t.watch().readable()) {
      large_.release();  // nothing of it is in use, and the wait may be long
      BodyWait wait(t.loop(), config_, rate_, info_, !info_.identity.is_streaming, deadline_);
      auto wake = co_await t.watch().until_readable(wait.deadline());
      wait.end();
      if (wake == Wake::interrupted && !discards_) continue;
      if (wake != Wake::ready) co_return fail(Fault::body_timeout, wait.detail());
    }
    const auto got = fill();
    if (got.status == Socket::ReadStatus::would_block) continue;
    rate_.received(got.size);
    if (got.status != Socket::ReadStatus::bytes) {
      co_return fail(Fault::client_gone, "the client closed the connection within its request");
    }
    if (large_.empty()) {
      if (auto chunk = take_buffered()) co_return std::move(*chunk);
    } else {
      if (auto chunk = take_large()) co_return std::move(*chunk);
    }
  }
}

Task<Result<Chunk>> TunnelBody::read() {
  Http1Transport& t = transport_;
  begun_ = true;
  if (!t.in.empty()) {
    const std::string_view bytes = t.in.bytes();
    t.in.begin = t.in.end;
    info_.outcome.bytes_in += bytes.size();
    co_return Chunk{.bytes = bytes};
  }
  if (!buffer_.block) buffer_.block = Block::take(Block::small);
  while (true) {
    if (!t.watch().readable()) {
      auto wake = co_await t.watch().until_readable();
      if (wake == Wake::interrupted) continue;
    }
    const auto got = t.socket->read_some(buffer_.block.data(), buffer_.block.size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status == Socket::ReadStatus::end) co_return Chunk{.last = true};
    if (got.status == Socket::ReadStatus::failure) {
      co_return Error{.fault = Fault::client_gone,
                      .side = Side::client,
                      .detail = "the client closed the connection"};
    }
    info_.outcome.bytes_in += got.size;
    co_return Chunk{.bytes = {buffer_.block.data(), got.size}};
  }
}

}  // namespace evenkeel
