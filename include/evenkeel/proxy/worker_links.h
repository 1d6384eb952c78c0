// The links of one worker to the backends of one configuration.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/proxy/worker_context.h"
#include "evenkeel/upstream/link_pool.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// A link pool for each backend of a plan. Thread: the worker's.
class WorkerLinks {
 public:
  /// Link pools of the predecessor, which may be null, are taken over where neither the addresses
  /// nor the options of the backend have changed. REQUIRES: `pool_set` was built from `config`.
  WorkerLinks(const Config& config, const PoolSet& pool_set, const WorkerContext& worker,
              const WorkerLinks* predecessor);

  /// The backends of a pool of the pool set, which outlives the result.
  std::unordered_map<const Backend*, BackendAccess> backends_of(
      const PoolSet::PoolEntry& pool) const;
  /// The link pools that the successor has not taken over.
  std::vector<std::shared_ptr<LinkPool>> not_in(const WorkerLinks& successor) const;
  /// LinkPool::suspect for the links to this backend, those of earlier plans included.
  void suspect(const std::string& pool, const std::string& backend, Duration max_silence);

 private:
  using BackendName = std::pair<std::string, std::string>;  // of its pool, and its id
  struct LabeledLinks;
  struct Connected {
    std::shared_ptr<LabeledLinks> links;
    Duration max_silence = Duration::max();            // as LinkPool::suspect was last told
    std::vector<std::weak_ptr<LabeledLinks>> retired;  // of earlier plans, with open requests
  };

  const Connected* find(const BackendName& name) const;
  static void continue_from(const Connected& before, Connected& now);

  std::map<BackendName, Connected> backends_;
};

}  // namespace evenkeel
