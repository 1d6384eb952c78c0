#include "evenkeel/filter/compressed_body.h"

#include <algorithm>
#include <span>
#include <utility>

namespace evenkeel {

CompressorPool::Loan CompressorPool::lend(ContentCoding coding) {
  if (in_use_ == max_in_use) return {};
  auto& kept = kept_[static_cast<std::size_t>(coding)];
  std::unique_ptr<Compressor> compressor;
  if (!kept.empty()) {
    compressor = std::move(kept.back());
    kept.pop_back();
  } else {
    compressor = coding == ContentCoding::zstd ? make_zstd_compressor() : make_gzip_compressor();
  }
  if (compressor == nullptr) return {};
  ++in_use_;
  return {compressor.release(), {.pool = this, .coding = coding}};
}

void CompressorPool::take_back(Compressor* compressor, ContentCoding coding) {
  std::unique_ptr<Compressor> own(compressor);
  --in_use_;
  auto& kept = kept_[static_cast<std::size_t>(coding)];
  if (kept.size() < max_kept) kept.push_back(std::move(own));
}

Task<Result<Chunk>> CompressedBody::read() {
  if (!room_) room_ = Block::take(Block::small);
  written_ = 0;
  if (auto chunk = advance()) return std::move(*chunk);
  return wait();
}

Task<Result<Chunk>> CompressedBody::wait() {
  while (true) {
    if (turn_left_ == 0) {
      co_await loop_.yield();
    } else {
      auto next = std::move(next_);  // dropped with this wait
      auto chunk = co_await next;
      if (!chunk) co_return chunk;
      take(*chunk);
    }
    turn_left_ = bytes_per_turn;
    if (auto chunk = advance()) co_return std::move(*chunk);
  }
}

/// The next chunk. Nothing: it takes another turn of the loop, or more of the body.
std::optional<Result<Chunk>> CompressedBody::advance() {
  while (turn_left_ > 0) {
    bool waits = false;
    if (input_.empty() && !input_is_last_) {
      if (!next_.valid()) next_ = body_->read();
      waits = !next_.ready();
      if (waits && !holds_bytes_) return std::nullopt;
      if (!waits) {
        auto chunk = next_.take();
        if (!chunk) return chunk;
        take(*chunk);
      }
    }
    const std::string_view bytes = input_.substr(0, turn_left_);
    const bool ends = input_is_last_ && bytes.size() == input_.size();
    const auto ending = waits  ? Compressor::Ending::flush
                        : ends ? Compressor::Ending::finish
                               : Compressor::Ending::none;
    if (auto chunk = compress(bytes, ending)) return chunk;
  }
  return std::nullopt;
}

/// The chunk that is then full or ends, if any.
std::optional<Result<Chunk>> CompressedBody::compress(std::string_view bytes,
                                                      Compressor::Ending ending) {
  const std::size_t given = bytes.size();
  std::size_t size = 0;
  const std::span<char> room(room_.data() + written_, room_.size() - written_);
  const auto status = compressor_->next(bytes, ending, room, size);
  const std::size_t used = given - bytes.size();
  input_.remove_prefix(used);
  turn_left_ -= used;
  written_ += size;
  if (status == Compressor::Status::failed) {
    return Error{.fault = Fault::out_of_memory,
                 .detail = "there is no memory to compress the response"};
  }
  const bool is_done = status == Compressor::Status::done;
  holds_bytes_ = !is_done;
  Chunk chunk{.bytes = {room_.data(), written_}};
  if (is_done && ending == Compressor::Ending::finish) {
    chunk.last = true;
    chunk.trailers = trailers_;
    return chunk;
  }
  // After a flush there may be nothing that was not written before.
  if ((is_done && written_ > 0) || written_ == room_.size()) return chunk;
  return std::nullopt;
}

}  // namespace evenkeel
