// The pools of a plan, as requests of its worker reach them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/worker_links.h"
#include "evenkeel/stats/label_index.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

struct PlanPool {
  const PoolConfig& config;
  std::uint32_t index = 0;  ///< of LabelIndex
  Forwarder* forwarder = nullptr;
  Handler* first = nullptr;     ///< of its filters, in front of the forwarder
  Handler* entry = nullptr;     ///< where routes lead: their own filters in front of `first`
  Handler* mirrored = nullptr;  ///< of copies (see MirrorFilter); null: it is no route's `mirror`
  const PlanPool* fallback = nullptr;  ///< null: none
  bool reads_bodies =
      false;             ///< true if it inspects requests, or a pool that it falls back to does
  bool renames = false;  ///< true if backends get another name of the model, those of fallbacks too
  bool changes_bodies = false;  ///< true if its `body` changes requests, or that of fallbacks
};

/// Thread: the worker's.
class PlanPools {
 public:
  /// What is passed outlives the pools. REQUIRES: the pool set was built from this configuration.
  PlanPools(const Config& config, const PoolSet& pool_set, const WorkerContext& worker,
            const WorkerLinks& links, LabelUses& label_uses, Rng& rng);
  PlanPools(const PlanPools&) = delete;
  PlanPools& operator=(const PlanPools&) = delete;

  /// The pools in the order of the file.
  std::deque<PlanPool>& list() { return pools_; }
  const std::deque<PlanPool>& list() const { return pools_; }
  /// The pool of this name; null if the file has none.
  PlanPool* find(std::string_view name) const;

  /// Requests that wait in the queue of a pool go on in the same pool of `successor`
  /// (Forwarder::hand_queue_to), unless it changes bodies for them in another way. `plan` owns it.
  void hand_queues_to(const PlanPools& successor, const std::shared_ptr<const void>& plan);

 private:
  std::vector<RouteRules> rules_;  // of all routes, or empty
  std::deque<Forwarder> forwarders_;
  std::deque<PlanPool> pools_;
  std::unordered_map<std::string_view, PlanPool*> by_name_;
};

}  // namespace evenkeel
