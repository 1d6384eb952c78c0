#include "evenkeel/backend/engine_state.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

/// Some servers derive the start time of their process from that of the kernel, which moves by a
/// second when the clock is adjusted.
constexpr double start_time_tolerance = 1.5;
/// The tolerance for a server that has refused connections in between.
constexpr double precise_start_time = 0.05;

/// What has been counted since the report before.
std::uint64_t growth(double before, double now, bool restarted) {
  const bool continues = !restarted && now >= before;
  if (std::isnan(before) && !restarted) return 0;
  return static_cast<std::uint64_t>(continues ? now - before : now);
}

EngineRun run_of(double start_time, double work_done) {
  EngineRun run;
  if (!std::isnan(start_time)) run.start_time = start_time;
  if (!std::isnan(work_done)) run.work_done = work_done;
  return run;
}

}  // namespace

EngineRun RestartDetector::run() const { return run_of(start_time_, work_done_); }

void RestartDetector::resume(const EngineRun& run) {
  start_time_ = run.start_time.value_or(EngineReport::unknown);
  work_done_ = run.work_done.value_or(EngineReport::unknown);
  unconfirmed_ = true;
}

bool RestartDetector::on_report(const EngineReport& report) {
  bool restarted = report.work_done < work_done_;
  if (!std::isnan(start_time_) && !std::isnan(report.start_time)) {
    const double tolerance = returned_ ? precise_start_time : start_time_tolerance;
    restarted = std::abs(report.start_time - start_time_) > tolerance;
    unconfirmed_ = false;
  }
  if (counted_) restarted = false;
  returned_ = counted_ = false;
  start_time_ = report.start_time;
  work_done_ = report.work_done;
  return restarted;
}

bool RestartDetector::on_return() {
  returned_ = true;
  counted_ = std::isnan(start_time_);
  return counted_;
}

void LoadedAdapters::assign(const std::vector<std::uint64_t>& hashes) {
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    hashes_[i].store(hashes[i], std::memory_order_relaxed);
  }
  size_.store(static_cast<std::uint32_t>(hashes.size()), std::memory_order_relaxed);
}

void EngineState::resume(const EngineRun& run) {
  restart_.resume(run);
  publish_run();
}

EngineRun EngineState::run() const {
  return run_of(start_time_.load(std::memory_order_relaxed),
                work_done_.load(std::memory_order_relaxed));
}

void EngineState::publish_run() {
  const EngineRun run = restart_.run();
  start_time_.store(run.start_time.value_or(EngineReport::unknown), std::memory_order_relaxed);
  work_done_.store(run.work_done.value_or(EngineReport::unknown), std::memory_order_relaxed);
}

void EngineState::report(const EngineReport& report) {
  const bool restarted = restart_.on_report(report);
  publish_run();
  count_restart(restarted);
  // A page may leave out what the one before had.
  if (!std::isnan(report.kv_tokens)) kv_tokens_.store(report.kv_tokens, std::memory_order_relaxed);
  if (!std::isnan(report.step_tokens)) {
    step_tokens_.store(report.step_tokens, std::memory_order_relaxed);
  }
  count_prefixes(report, restarted);
  if (report.adapter_slots > 0) {
    adapter_slots_.store(static_cast<std::uint32_t>(report.adapter_slots),
                         std::memory_order_relaxed);
  }
  if (restarted) forget_adapters();
  if (report.adapters) note_adapters(*report.adapters);
  // Release: a thread that sees the number sees the report.
  reports_.fetch_add(1, std::memory_order_release);
}

void EngineState::forget() {
  restart_.forget_counters();
  publish_run();
  prefix_queried_ = prefix_hit_ = EngineReport::unknown;
  kv_tokens_.store(EngineReport::unknown, std::memory_order_relaxed);
  step_tokens_.store(EngineReport::unknown, std::memory_order_relaxed);
  adapter_slots_.store(0, std::memory_order_relaxed);
  forget_adapters();
}

void EngineState::forget_adapters() {
  recent_adapters_.clear();
  if (LoadedAdapters* const made = adapters_.load(std::memory_order_relaxed)) made->assign({});
}

void EngineState::offers(OfferedAdapters adapters) {
  auto offered = std::make_shared<const OfferedAdapters>(std::move(adapters));
  const std::lock_guard lock(offered_mutex_);
  if (*offered == *offered_) return;
  offered_ = std::move(offered);
  offered_revision_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const OfferedAdapters> EngineState::offered() const {
  const std::lock_guard lock(offered_mutex_);
  return offered_;
}

std::optional<PrefixCacheTokens> EngineState::prefix_cache() const {
  if (!counts_prefixes_.load(std::memory_order_relaxed)) return std::nullopt;
  return PrefixCacheTokens{.queried = queried_total_.load(std::memory_order_relaxed),
                           .hit = hit_total_.load(std::memory_order_relaxed)};
}

void EngineState::count_prefixes(const EngineReport& report, bool restarted) {
  if (std::isnan(report.prefix_queried) || std::isnan(report.prefix_hit)) return;
  queried_total_.fetch_add(growth(prefix_queried_, report.prefix_queried, restarted),
                           std::memory_order_relaxed);
  hit_total_.fetch_add(growth(prefix_hit_, report.prefix_hit, restarted),
                       std::memory_order_relaxed);
  prefix_queried_ = report.prefix_queried;
  prefix_hit_ = report.prefix_hit;
  counts_prefixes_.store(true, std::memory_order_relaxed);
}

/// An engine reports the adapters of the requests that it has or had, and keeps those that were
/// used last until it needs their slots.
void EngineState::note_adapters(const AdapterReport& report) {
  std::vector<std::uint64_t> recent = report.in_use;
  const auto add = [&recent](const std::vector<std::uint64_t>& older) {
    for (const std::uint64_t hash : older) {
      if (std::ranges::find(recent, hash) == recent.end()) recent.push_back(hash);
    }
  };
  add(report.used_before);
  add(recent_adapters_);
  std::size_t kept = LoadedAdapters::capacity;
  if (report.slots > 0) {
    adapter_slots_.store(report.slots, std::memory_order_relaxed);
    kept = std::min(kept, std::max<std::size_t>(report.slots, report.in_use.size()));
  }
  if (recent.size() > kept) recent.resize(kept);
  LoadedAdapters* made = adapters_.load(std::memory_order_relaxed);
  if (made == nullptr) {
    made = new LoadedAdapters;
    // Release: another thread that sees the pointer sees the array constructed.
    adapters_.store(made, std::memory_order_release);
  }
  if (recent != recent_adapters_) made->assign(recent);
  recent_adapters_ = std::move(recent);
}

}  // namespace evenkeel
