// What a backend's engine says of itself: sizes, restarts, hits of its prefix cache, adapters.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "evenkeel/backend/engine_run.h"
#include "evenkeel/base/engine_report.h"

namespace evenkeel {

/// Notices that an engine has been restarted, by the best evidence there is: the start time of its
/// process; else a counter that goes back; else that it accepts connections again after it has
/// refused some.
class RestartDetector {
 public:
  /// Takes in a page that was read. True if the engine has restarted since the one before.
  bool on_report(const EngineReport& report);
  /// Notes that the engine accepts connections after it refused some. True if it has restarted, as
  /// far as can be told; false also where the next report will tell.
  bool on_return();
  /// Which process of the engine the last report came from. REQUIRES of `resume`: no report yet.
  EngineRun run() const;
  void resume(const EngineRun& run);
  /// True if no report has told whether the engine still is in the run that was resumed.
  bool is_unconfirmed() const { return unconfirmed_; }
  /// Counters of the next report are others than those before.
  void forget_counters() { work_done_ = EngineReport::unknown; }

 private:
  double start_time_ = EngineReport::unknown;
  double work_done_ = EngineReport::unknown;
  bool returned_ = false;  // since the last report
  bool counted_ = false;   // that return, as a restart
  bool unconfirmed_ = false;
};

/// The LoRA adapters that an engine holds, as hashes of their names. A reader may see a mix of two
/// reports, but each hash is whole.
///
/// Thread: any; `assign` one at a time.
class LoadedAdapters {
 public:
  static constexpr std::size_t capacity = 32;

  bool contains(std::uint64_t name_hash) const {
    const std::size_t known = size();
    for (std::size_t i = 0; i < known; ++i) {
      if (hashes_[i].load(std::memory_order_relaxed) == name_hash) return true;
    }
    return false;
  }
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  /// The last used first. REQUIRES: i < capacity.
  std::uint64_t operator[](std::size_t i) const {
    return hashes_[i].load(std::memory_order_relaxed);
  }
  /// REQUIRES: not more than `capacity`.
  void assign(const std::vector<std::uint64_t>& hashes);

 private:
  std::atomic<std::uint32_t> size_{0};
  std::array<std::atomic<std::uint64_t>, capacity> hashes_{};
};

/// The names of the adapters that an engine offers, in its order.
using OfferedAdapters = std::vector<AdapterName>;

/// Tokens of prompts since this process knows the engine, over its restarts.
struct PrefixCacheTokens {
  std::uint64_t queried = 0;
  std::uint64_t hit = 0;  ///< of them, already in the cache
};

/// Kept while the engine cannot be polled: unlike its load, sizes do not age.
///
/// Thread: `report`, `returned`, `offers` and `forget` one at a time, the rest any.
class EngineState {
 public:
  EngineState() = default;
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;
  ~EngineState() { delete adapters_.load(std::memory_order_relaxed); }

  void report(const EngineReport& report);
  /// The server accepts connections after it has refused some.
  void returned() { count_restart(restart_.on_return()); }
  /// An engine that falls asleep gives up its caches.
  void fell_asleep() { cache_clears_.fetch_add(1, std::memory_order_relaxed); }
  /// Notes the adapters that the engine lists.
  void offers(OfferedAdapters adapters);
  /// Goes on from the run that the engine was in for another process; the next report may tell that
  /// it has restarted since. REQUIRES: no report yet.
  void resume(const EngineRun& run);
  /// The run that the engine is in, as far as it tells. Thread: any.
  EngineRun run() const;
  /// True if no report has told whether the resumed run still goes on. Thread: that of `report`.
  bool is_unconfirmed() const { return restart_.is_unconfirmed(); }
  /// Forgets what the engine reported: it is not polled any more, or as another. Counts stay.
  void forget();

  /// Tokens that its KV caches hold, over all ranks; NaN: unknown.
  double kv_tokens() const { return kv_tokens_.load(std::memory_order_relaxed); }
  /// The most tokens that one step computes; NaN: unknown.
  double step_tokens() const { return step_tokens_.load(std::memory_order_relaxed); }
  /// How often it has restarted since this process knows it.
  std::uint64_t restarts() const { return restarts_.load(std::memory_order_relaxed); }
  /// How often its prefix cache has become empty: it restarted, or fell asleep.
  std::uint64_t cache_clears() const { return cache_clears_.load(std::memory_order_relaxed); }
  /// Nothing if the engine does not say.
  std::optional<PrefixCacheTokens> prefix_cache() const;
  /// Null if the engine has no adapters, or does not say. Valid as long as this object lives.
  const LoadedAdapters* adapters() const { return adapters_.load(std::memory_order_acquire); }
  /// How often `report` was called.
  std::uint64_t reports() const { return reports_.load(std::memory_order_acquire); }
  /// How many adapters it keeps loaded; 0: unknown.
  std::uint32_t adapter_slots() const { return adapter_slots_.load(std::memory_order_relaxed); }
  /// The adapters as last listed. Never null. Takes a lock for a moment.
  std::shared_ptr<const OfferedAdapters> offered() const;
  /// Changes with `offered()`.
  std::uint64_t offered_revision() const {
    return offered_revision_.load(std::memory_order_acquire);
  }

 private:
  void publish_run();
  void count_restart(bool restarted) {
    restarts_.fetch_add(restarted, std::memory_order_relaxed);
    cache_clears_.fetch_add(restarted, std::memory_order_relaxed);
  }
  void count_prefixes(const EngineReport& report, bool restarted);
  void note_adapters(const AdapterReport& report);
  void forget_adapters();

  // Used by the thread that reports only.
  RestartDetector restart_;
  double prefix_queried_ = EngineReport::unknown;  // at the last report
  double prefix_hit_ = EngineReport::unknown;
  std::vector<std::uint64_t> recent_adapters_;  // the last used first

  std::atomic<double> start_time_{EngineReport::unknown};
  std::atomic<double> work_done_{EngineReport::unknown};
  std::atomic<double> kv_tokens_{EngineReport::unknown};
  std::atomic<double> step_tokens_{EngineReport::unknown};
  std::atomic<std::uint64_t> restarts_{0};
  std::atomic<std::uint64_t> cache_clears_{0};
  std::atomic<bool> counts_prefixes_{false};
  std::atomic<std::uint64_t> queried_total_{0};
  std::atomic<std::uint64_t> hit_total_{0};
  std::atomic<LoadedAdapters*> adapters_{nullptr};  // made with the first report that has any
  std::atomic<std::uint32_t> adapter_slots_{0};
  std::atomic<std::uint64_t> reports_{0};
  mutable std::mutex offered_mutex_;
  std::shared_ptr<const OfferedAdapters> offered_ = std::make_shared<OfferedAdapters>();
  std::atomic<std::uint64_t> offered_revision_{0};
};

}  // namespace evenkeel
