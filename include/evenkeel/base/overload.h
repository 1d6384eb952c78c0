// Why connections are closed to make room, and how near the process is to its memory limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace evenkeel {

/// What there is too little of when an idle connection is closed for it.
enum class ShedReason : std::uint8_t {
  max_connections,  ///< the listener is at its `limits.max_connections`
  descriptors,      ///< few file descriptors are left
  memory,           ///< the process is near its memory limit
};

inline constexpr int shed_reason_count = static_cast<int>(ShedReason::memory) + 1;

/// The stable word of a reason, such as "max_connections".
const char* to_string(ShedReason reason);

enum class MemoryPressure : std::uint8_t {
  none,
  high,      ///< idle connections are closed, new ones wait
  critical,  ///< new requests are refused too
};

/// The memory pressure of the process. Thread: any.
class MemoryPressureLevel {
 public:
  MemoryPressure get() const { return level_.load(std::memory_order_relaxed); }
  void set(MemoryPressure level) { level_.store(level, std::memory_order_relaxed); }

  /// Bytes that may be taken before the pressure is high: as of the last measurement, less what was
  /// taken since by those that count it. Memory fills faster than it is measured.
  std::int64_t room() const { return room_.load(std::memory_order_relaxed); }
  void set_room(std::int64_t bytes) { room_.store(bytes, std::memory_order_relaxed); }
  /// Negative: they are free again.
  void take(std::int64_t bytes) const {
    if (room() != unlimited) room_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

 private:
  std::atomic<MemoryPressure> level_{MemoryPressure::none};
  mutable std::atomic<std::int64_t> room_{unlimited};
};

}  // namespace evenkeel
