// A body that is compressed while it is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/coding/compressor.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The compressors of one worker. Each takes about 300 KiB until a client has read the last byte:
/// so only some are in use, and few are kept. Thread: one.
class CompressorPool {
 public:
  static constexpr std::size_t max_in_use = 128;
  static constexpr std::size_t max_kept = 4;  // of each coding

  struct Return {
    CompressorPool* pool = nullptr;
    ContentCoding coding{};
    void operator()(Compressor* compressor) const { pool->take_back(compressor, coding); }
  };
  /// Goes back to its pool, which outlives it.
  using Loan = std::unique_ptr<Compressor, Return>;

  /// A compressor for another text. Null: all are in use, or there is no memory.
  Loan lend(ContentCoding coding);

 private:
  void take_back(Compressor* compressor, ContentCoding coding);

  std::array<std::vector<std::unique_ptr<Compressor>>, 2> kept_;  // by coding
  std::size_t in_use_ = 0;
};

/// Compresses another body as its bytes come. Nothing is held back while that body waits for more,
/// and not much is compressed before the loop gets another turn. Trailers pass.
class CompressedBody final : public Body {
 public:
  /// `outcome`: of the request, which outlives the body. REQUIRES: the compressor is not null, and
  /// begins.
  CompressedBody(Loop& loop, BodyPtr body, CompressorPool::Loan compressor, RequestOutcome& outcome)
      : loop_(loop), outcome_(outcome), body_(std::move(body)), compressor_(std::move(compressor)) {
    compressor_->begin(body_->length());
  }

  Task<Result<Chunk>> read() override;
  // The length is known when all is compressed.

 private:
  // zlib takes half a millisecond for them.
  static constexpr std::size_t bytes_per_turn = 32UL * 1024;

  std::optional<Result<Chunk>> advance();
  std::optional<Result<Chunk>> compress(std::string_view bytes, Compressor::Ending ending);
  Task<Result<Chunk>> wait();
  void take(const Chunk& chunk) {
    input_ = chunk.bytes;
    input_is_last_ = chunk.last;
    trailers_ = chunk.trailers;
    outcome_.bytes_compressed += chunk.bytes.size();
  }

  Loop& loop_;
  RequestOutcome& outcome_;
  BodyPtr body_;
  Task<Result<Chunk>> next_;  // of the body, if it was begun
  CompressorPool::Loan compressor_;
  std::string_view input_;  // what is left of the last chunk
  bool input_is_last_ = false;
  const Fields* trailers_ = nullptr;
  bool holds_bytes_ = false;  // true if the client cannot read all that was compressed
  std::size_t turn_left_ = bytes_per_turn;
  Block room_;
  std::size_t written_ = 0;  // in `room_`
};

}  // namespace evenkeel
