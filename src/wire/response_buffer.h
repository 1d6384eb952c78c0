// Memory for responses on their way from a backend to clients that may read slowly.
#pragma once

#include <cstdint>

#include "evenkeel/base/buffer.h"

namespace evenkeel {

/// What the responses on one thread may hold in all, beyond the small block or window that each of
/// them has: a response that does not get a share is read in smaller pieces. So a client that opens
/// many streams and reads none of them cannot take much.
///
/// Thread: counts for the one that uses it.
class ResponseBudget {
 public:
  static constexpr std::int64_t bytes_per_thread = std::int64_t{8} * 1024 * 1024;

  /// False: too much is taken already.
  static bool take(std::uint32_t bytes) {
    if (taken_ + bytes > bytes_per_thread) return false;
    taken_ += bytes;
    return true;
  }
  static void give_back(std::uint32_t bytes) { taken_ -= bytes; }
  static std::int64_t taken() { return taken_; }

 private:
  static inline constinit thread_local std::int64_t taken_ = 0;
};

/// A buffer for a response body: a large block while the budget lasts.
class ResponseBuffer : public ReadBuffer {
 public:
  ResponseBuffer() = default;
  ResponseBuffer(const ResponseBuffer&) = delete;
  ResponseBuffer& operator=(const ResponseBuffer&) = delete;
  ~ResponseBuffer() { give_back(); }

  /// Takes a block unless it has one. When the budget is spent, none if that is `optional`, else a
  /// small one.
  void take(bool optional) {
    if (block) return;
    if (ResponseBudget::take(Block::large)) {
      charged_ = Block::large;
      block = Block::take(Block::large);
    } else if (!optional) {
      block = Block::take(Block::small);
    }
  }
  void release() {
    give_back();
    ReadBuffer::release();
  }

 private:
  void give_back() {
    ResponseBudget::give_back(charged_);
    charged_ = 0;
  }

  std::uint32_t charged_ = 0;
};

}  // namespace evenkeel
