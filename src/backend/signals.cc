#include "evenkeel/backend/signals.h"

#include <cmath>

namespace evenkeel {
namespace {

/// The values of a poll count for at least this long.
constexpr Duration max_report_age = std::chrono::seconds(2);

}  // namespace

void Signals::report(const LoadSample& report, Instant now, std::uint32_t in_flight) {
  const auto known = [](double value) { return !std::isnan(value); };
  const auto replaces = [&](double value, const std::atomic<double>& other) {
    return known(value) || std::isnan(other.load(std::memory_order_relaxed));
  };
  if (known(report.kv_cache_ratio)) {
    kv_cache_ratio_.store(report.kv_cache_ratio, std::memory_order_relaxed);
  }
  const bool has_counts = known(report.running) || known(report.waiting);
  const bool counts =
      has_counts && replaces(report.running, running_) && replaces(report.waiting, waiting_);
  const Duration::rep time = now.time_since_epoch().count();
  if (counts) {
    running_.store(report.running, std::memory_order_relaxed);
    waiting_.store(report.waiting, std::memory_order_relaxed);
    in_flight_at_poll_.store(in_flight, std::memory_order_relaxed);
  }
  reported_at_.store(time, std::memory_order_relaxed);
  if (counts || polled_at_.load(std::memory_order_relaxed) == 0) {
    polled_at_.store(time, std::memory_order_release);
  }
}

void Signals::expire_report(Instant now) {
  const Duration::rep reported_at = reported_at_.load(std::memory_order_relaxed);
  if (reported_at == 0) return;
  if (now - Instant(Duration(reported_at)) > max_report_age) publish_expired();
}

/// The age goes on growing.
void Signals::publish_expired() {
  reported_at_.store(0, std::memory_order_relaxed);
  running_.store(LoadSample::unknown, std::memory_order_relaxed);
  waiting_.store(LoadSample::unknown, std::memory_order_relaxed);
  kv_cache_ratio_.store(LoadSample::unknown, std::memory_order_relaxed);
}

}  // namespace evenkeel
