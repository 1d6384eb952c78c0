// A request body that can be sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/base/buffer.h"
#include "evenkeel/filter/held_bodies.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Keeps what was read of a request body until the response begins: the block in which the bytes
/// lie where it can be taken, else a copy. A body that outgrows its limit, or the memory that one
/// worker spends on such bodies, or that grows while memory is scarce, is no longer kept: it goes
/// on as a stream, and the request cannot be retried.
///
/// REQUIRES: what is passed by reference outlives it. Thread: the worker's.
class ReplayBody final : public Body, private HeldBody {
 public:
  using HeldBody::max_small_body;

  /// How much one body and all bodies of a worker may hold, in bytes.
  struct Limits {
    std::uint64_t body_bytes;
    std::uint64_t worker_bytes;
  };

  ReplayBody(BodyPtr body, Limits limits, HeldBodies& held_bodies, const RequestIdentity& identity)
      : HeldBody(held_bodies, identity, limits.worker_bytes),
        body_(std::move(body)),
        metrics_(held_bodies.metrics()),
        max_bytes_(limits.body_bytes) {}
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

  // ---- before it is read: what follows is read and held until `rewind` ----

  /// The next bytes. One of the following must be called for them. Error body_timeout: it was ended
  /// to make room for others.
  Task<Result<Chunk>> receive();
  /// Holds what was received last; false: there is no room.
  bool hold(const Chunk& chunk);
  /// Holds it however large the body is, and waits until there is room. What is still to come will
  /// find room too. Errors: see HeldBody::wait_to_claim.
  Task<Result<Done>> hold_all(const Chunk& chunk);
  /// Lends what was received last: it is not held, but stays to be read after `rewind`. Nothing
  /// more can be received.
  void lend(const Chunk& chunk);
  /// True if further bytes can be held.
  bool holds() const { return !lent_; }
  /// Bytes that are held.
  std::uint64_t size() const { return kept_bytes_; }

 private:
  class Arrival;

  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  Task<Result<Chunk>> wait_to_receive(Task<Result<Chunk>> next);
  Task<Result<Done>> wait_to_hold(Chunk chunk);
  Result<Chunk> keep(Result<Chunk> chunk);
  void appended(const Chunk& chunk);
  std::uint64_t needed_for(const Chunk& chunk) const;
  bool append(std::string_view bytes);
  bool keep_block(std::string_view bytes, bool small);
  void free_before(std::size_t block);
  Chunk replay();
  void forget();
  void drop_copy() override;
  void end_arrival() override;

  BodyPtr body_;
  ReplayMetrics& metrics_;
  const std::uint64_t max_bytes_;
  std::uint64_t kept_bytes_ = 0;
  std::vector<ReadBuffer> blocks_;
  std::size_t freed_ = 0;       // blocks before this one are empty
  std::size_t next_ = 0;        // the block to replay
  bool lends_block_ = false;    // the last chunk lies in the block before `next_`
  std::optional<Chunk> last_;   // the body's, without its bytes
  std::optional<Chunk> lent_;   // behind the blocks: the chunk that is read as the body lends it
  Arrival* arrival_ = nullptr;  // of the bytes that are to be received
  bool keeps_ = true;
  bool whole_ = true;  // all that was read is here
};

}  // namespace evenkeel
