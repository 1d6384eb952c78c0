// The spans of one worker that wait for their export.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/stats/counter.h"

namespace evenkeel {

/// Spans as JSON objects with a comma between them, and how many they are.
struct SpanBatch {
  std::string json;
  std::uint64_t count = 0;
};

/// Hands spans from a worker to the thread that exports them. Takes no lock, and holds a limited
/// number of bytes: what is beyond them is lost, and counted.
///
/// Thread: `has_room` and `append` on one, `take` on one other, `dropped` on any.
class SpanQueue {
 public:
  static constexpr std::size_t max_bytes = std::size_t{2} * 1024 * 1024;

  SpanQueue() = default;
  SpanQueue(const SpanQueue&) = delete;
  SpanQueue& operator=(const SpanQueue&) = delete;
  ~SpanQueue();

  /// False from the first spans that were lost until those that wait have been taken; then `count`
  /// more are lost.
  bool has_room(std::uint64_t count);
  /// Appends the spans of a request, if there is room.
  void append(std::string_view json, std::uint64_t count);
  /// All spans so far; null if there are none, or one is being appended.
  std::unique_ptr<SpanBatch> take();
  std::uint64_t dropped() const { return dropped_.value(); }

 private:
  std::atomic<SpanBatch*> waiting_{nullptr};  // owned by the one that exchanges it for null
  bool full_ = false;                         // as the worker knows
  Counter dropped_;
};

/// Why spans were not exported.
enum class SpanLoss : std::uint8_t {
  queue_full,   ///< more of them than could be sent
  unreachable,  ///< the collector could not be reached, or was overloaded, for too long
  rejected,     ///< the collector did not want them
};
inline constexpr std::size_t span_loss_count = 3;
const char* to_string(SpanLoss loss);

/// What came of the spans that were handed over. Thread: the exporter's; values: any.
struct SpanExportCounters {
  Counter exported;
  std::array<Counter, span_loss_count> lost;  ///< `queue_full` is counted by the queues
  Counter failures;                           ///< requests to the collector that failed
};

}  // namespace evenkeel
