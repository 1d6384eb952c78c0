#include "server/memory_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "evenkeel/base/log.h"
#include "server/worker_group.h"

namespace evenkeel {
namespace {

constexpr Duration measuring_interval = std::chrono::milliseconds(250);
/// The limit of a cgroup may be changed at any time.
constexpr Duration limit_reading_interval = std::chrono::seconds(5);
/// A release takes milliseconds, during which allocations wait.
constexpr Duration release_interval = std::chrono::seconds(2);
constexpr Duration report_interval = std::chrono::seconds(10);

constexpr double high_share = 0.90;
constexpr double critical_share = 0.95;
constexpr double hysteresis = 0.02;
/// The share of the idle connections that is closed with each measurement: most of them are gone
/// after two seconds.
constexpr double shed_share = 0.25;

constexpr std::uint64_t mib = 1024 * 1024;

}  // namespace

std::optional<std::uint64_t> memory_limit(const MemoryLimit& setting, const MemoryUsage& usage) {
  switch (setting.kind) {
    case MemoryLimit::Kind::automatic: return usage.cgroup_limit();
    case MemoryLimit::Kind::off: return std::nullopt;
    case MemoryLimit::Kind::bytes: return setting.bytes;
    case MemoryLimit::Kind::share: break;
  }
  auto whole = usage.cgroup_limit();
  if (!whole) whole = usage.machine_memory();
  if (!whole) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(*whole) * setting.share);
}

MemoryPressure memory_pressure_at(std::uint64_t used, std::uint64_t limit, MemoryPressure before) {
  const double share = static_cast<double>(used) / static_cast<double>(std::max(limit, mib));
  const auto from = [before](double threshold, MemoryPressure level) {
    return before >= level ? threshold - hysteresis : threshold;
  };
  if (share >= from(critical_share, MemoryPressure::critical)) return MemoryPressure::critical;
  if (share >= from(high_share, MemoryPressure::high)) return MemoryPressure::high;
  return MemoryPressure::none;
}

std::int64_t memory_room(std::uint64_t used, std::uint64_t limit) {
  return static_cast<std::int64_t>(high_share * static_cast<double>(limit)) -
         static_cast<std::int64_t>(used);
}

bool PressureReports::due(MemoryPressure level, Instant now) {
  if (level == reported_ || (level < reported_ && now < next_fall_)) return false;
  reported_ = level;
  next_fall_ = now + report_interval;
  return true;
}

void MemoryGuard::update_limit() {
  if (loop_.now() < next_limit_reading_) return;
  next_limit_reading_ = loop_.now() + limit_reading_interval;
  const auto limit = memory_limit(status_.snapshot()->config->limits.memory, usage_);
  figures_.limit_bytes.store(limit.value_or(0), std::memory_order_relaxed);
}

Task<void> MemoryGuard::run(WorkerGroup& workers) {
  while (true) {
    update_limit();
    const std::uint64_t limit = figures_.limit_bytes.load(std::memory_order_relaxed);
    const std::uint64_t used = limit == 0 ? 0 : usage_.used().value_or(0);
    figures_.used_bytes.store(used, std::memory_order_relaxed);
    const MemoryPressure now =
        limit == 0 ? MemoryPressure::none : memory_pressure_at(used, limit, pressure_.get());
    pressure_.set(now);
    pressure_.set_room(limit == 0 ? MemoryPressureLevel::unlimited : memory_room(used, limit));
    report(now);
    if (now != MemoryPressure::none) {
      workers.shed_idle(shed_share, ShedReason::memory);
      if (loop_.now() >= next_release_) {
        co_await workers.release_memory();
        next_release_ = loop_.now() + release_interval;
      }
    }
    co_await loop_.sleep_for(measuring_interval);
  }
}

void MemoryGuard::report(MemoryPressure level) {
  if (!reports_.due(level, loop_.now())) return;
  const std::uint64_t used = figures_.used_bytes.load(std::memory_order_relaxed);
  const std::uint64_t limit = figures_.limit_bytes.load(std::memory_order_relaxed);
  const std::string figures = fmt::format("memory: {} of {} MiB in use", used / mib, limit / mib);
  switch (level) {
    case MemoryPressure::none: log::limits.info("memory pressure has ended"); break;
    case MemoryPressure::high:
      log::limits.warning(figures + ": closing idle connections; new ones wait (limits.memory)");
      break;
    case MemoryPressure::critical:
      log::limits.error(figures + ": closing idle connections, refusing requests (limits.memory)");
      break;
  }
}

}  // namespace evenkeel
