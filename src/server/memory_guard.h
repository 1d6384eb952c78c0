// Keeps the process below its memory limit: closes idle connections, then refuses requests.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/memory_usage.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

class WorkerGroup;

/// The limit in bytes that a setting stands for; nothing: no limit.
std::optional<std::uint64_t> memory_limit(const MemoryLimit& setting, const MemoryUsage& usage);

/// The pressure at this usage: `high` from 90 % of the limit, `critical` from 95 %. It falls again
/// 2 % below, so that it does not change with every request.
MemoryPressure memory_pressure_at(std::uint64_t used, std::uint64_t limit, MemoryPressure before);

/// Bytes that may be taken until the pressure is high; negative: it is.
std::int64_t memory_room(std::uint64_t used, std::uint64_t limit);

/// Which levels of memory pressure are logged: a rise at once, anything else at most once in ten
/// seconds, so that a level that comes and goes does not fill the log.
class PressureReports {
 public:
  /// True if the level, which is `level` now, is to be logged. Thread: one.
  bool due(MemoryPressure level, Instant now);

 private:
  MemoryPressure reported_ = MemoryPressure::none;
  Instant next_fall_{};
};

/// Compares the memory of the process with `limits.memory` four times a second, and acts on it.
///
/// Thread: the control thread's. Outlives the workers.
class MemoryGuard {
 public:
  MemoryGuard(Loop& loop, const RuntimeStatusPublisher& status) : loop_(loop), status_(status) {}

  const MemoryPressureLevel& pressure() const { return pressure_; }
  const MemoryFigures& figures() const { return figures_; }

  Task<void> run(WorkerGroup& workers);

 private:
  void update_limit();
  void report(MemoryPressure level);

  Loop& loop_;
  const RuntimeStatusPublisher& status_;
  MemoryUsage usage_;
  MemoryPressureLevel pressure_;
  MemoryFigures figures_;
  Instant next_limit_reading_{};
  Instant next_release_{};
  PressureReports reports_;
};

}  // namespace evenkeel
