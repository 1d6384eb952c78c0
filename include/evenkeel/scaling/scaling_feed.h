// What scales pools should know of them: one snapshot, and those that wait for the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/scaling/replica_planner.h"

namespace evenkeel {

/// One pool with `scaling`.
struct PoolScaling {
  std::string pool;
  ScalingConfig config;
  PoolSample sample;  ///< that the plan was made from
  ReplicaPlan plan;
};

/// All of them, in the order of the file. Never changes once it is published.
struct ScalingSnapshot {
  std::vector<PoolScaling> pools;

  const PoolScaling* find(std::string_view pool) const;
};

/// Holds the current snapshot, and tells loops of the next one.
///
/// Thread: any, but for `publish`: the control thread.
class ScalingFeed {
 public:
  using Snapshot = std::shared_ptr<const ScalingSnapshot>;

  ScalingFeed() : current_(std::make_shared<const ScalingSnapshot>()) {}
  ScalingFeed(const ScalingFeed&) = delete;
  ScalingFeed& operator=(const ScalingFeed&) = delete;

  Snapshot snapshot() const;
  /// Wakes those that wait if a pool has come or gone, or is to have another number of replicas.
  void publish(ScalingSnapshot next);
  /// Wakes those that wait, for good: the process ends.
  void close();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  /// Waits for changes on one loop, while it lives. Thread: the loop's.
  class Watcher {
   public:
    Watcher(ScalingFeed& feed, Loop& loop);
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;
    ~Watcher();
    /// Returns when something has changed since the last call, or since it was made.
    Signal::Wait changed() { return signal_.wait(); }

   private:
    friend class ScalingFeed;
    /// Shared with messages that arrive after the watcher is gone.
    struct Place {
      Loop& loop;
      Signal* signal;  // the loop's thread only; null: it is gone
    };

    ScalingFeed& feed_;
    Signal signal_;
    std::shared_ptr<Place> place_;
  };

 private:
  void wake_locked();

  mutable std::mutex mutex_;
  Snapshot current_;
  std::vector<std::shared_ptr<Watcher::Place>> watchers_;  // their loops exist as long
  std::atomic<bool> closed_{false};
};

}  // namespace evenkeel
