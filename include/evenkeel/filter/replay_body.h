// A request body that can be sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Keeps what was read of a request body until the response begins: the block in which the bytes
/// lie where it can be taken, else a copy. A body that outgrows its limit, or the memory that one
/// worker spends on such bodies, or that grows while memory is scarce, is no longer kept: it goes
/// on as a stream, and the request cannot be retried.
///
/// REQUIRES: `metrics` and `pressure` outlive it. Thread: the worker's.
class ReplayBody final : public Body {
 public:
  /// Larger bodies share half of what a worker may hold: a few that arrive slowly leave room for
  /// the many that are small.
  static constexpr std::uint64_t max_small_body = 64UL * 1024;

  /// How much one body and all bodies of a worker may hold, in bytes.
  struct Limits {
    std::uint64_t body_bytes;
    std::uint64_t worker_bytes;
  };

  /// `pressure` null: there is never any.
  ReplayBody(BodyPtr body, Limits limits, ReplayMetrics& metrics,
             const MemoryPressureLevel* pressure)
      : body_(std::move(body)), metrics_(metrics), pressure_(pressure), limits_(limits) {}
  ReplayBody(const ReplayBody&) = delete;
  ReplayBody& operator=(const ReplayBody&) = delete;
  ~ReplayBody() override { forget(); }

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override { return body_->length(); }
  bool rewind() override;
  bool rewindable() const override { return keeps_; }

  /// Frees what was kept, except for the block that the last chunk lies in, unless all was sent,
  /// and those that are still to be read.
  void commit(bool sent) override;

  /// The next bytes, which stay to be read again after `rewind`, also if this body can keep no more
  /// after them; `holds` then turns false. REQUIRES: nothing was rewound yet.
  Task<Result<Chunk>> hold();
  /// Further bytes can be held.
  bool holds() const { return !unkept_; }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  Task<Result<Chunk>> wait_to_hold(Task<Result<Chunk>> next);
  Result<Chunk> keep_held(Result<Chunk> chunk);
  Result<Chunk> keep(Result<Chunk> chunk);
  bool append(std::string_view bytes);
  bool keep_block(std::string_view bytes, std::uint64_t limit);
  bool memory_is_scarce() const {
    return pressure_ != nullptr && pressure_->get() != MemoryPressure::none;
  }
  Chunk replay();
  void forget();

  BodyPtr body_;
  ReplayMetrics& metrics_;
  const MemoryPressureLevel* pressure_;
  Limits limits_;
  std::uint64_t kept_bytes_ = 0;
  std::int64_t held_ = 0;  // bytes of the blocks
  std::vector<ReadBuffer> blocks_;
  std::size_t next_ = 0;         // the block to replay
  bool lends_block_ = false;     // the last chunk lies in the block before `next_`
  std::optional<Chunk> last_;    // the body's, without its bytes
  std::optional<Chunk> unkept_;  // behind the blocks: the chunk that was held as the body lends it
  bool keeps_ = true;
};

}  // namespace evenkeel
