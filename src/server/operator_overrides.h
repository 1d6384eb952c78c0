// What operators set over the admin API in place of the file's settings.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/config/config.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

struct SavedState;

/// Weights and drains that operators set: they hold over reloads and DNS updates.
///
/// Thread: the control thread.
class OperatorOverrides {
 public:
  using Weights = decltype(BuildInputs::weights);
  using Drained = decltype(BuildInputs::drained);
  using Ids = decltype(BuildInputs::ids);
  using DrainEnds = decltype(RuntimeStatus::drain_ends);

  /// What a process that replaces this one needs.
  SavedState save(const PoolSet& pool_set, const Config& config);
  /// Continues with what was saved, under this configuration. REQUIRES: before the first commit.
  void restore(SavedState state, const Config& config);

  const Weights& weights() const { return weights_; }
  const Drained& drained() const { return drained_; }
  /// What weights and drains of the process before name backends by.
  const Ids& ids() const { return ids_; }

  void set_weights(Weights weights) { weights_ = std::move(weights); }
  /// The weights with one more set.
  Weights weights_with(const std::string& pool, const std::string& backend,
                       std::uint32_t weight) const;
  /// The weights that still hold under `next`: those of backends whose configured weight is the
  /// same in both configurations.
  Weights weights_for(const Config& next, const Config& current) const;

  /// Notes which backends are drained. A drain is kept in the backend's state, which is lost while
  /// DNS does not know the backend; a backend that the configuration no longer has is forgotten.
  void record_drained(const PoolSet& pool_set, const Config& config);
  /// The drained backends that `pool_set` does not have: of the others, the state knows.
  Drained drained_outside(const PoolSet& pool_set) const;

  /// When the drain of a backend ends by itself; nothing: not before an operator ends it.
  void set_drain_end(const std::string& pool, const std::string& backend,
                     std::optional<std::chrono::system_clock::time_point> end);
  const DrainEnds& drain_ends() const { return drain_ends_; }
  /// Ends the drains whose time is over. Returns which.
  std::vector<std::pair<std::string, std::string>> end_drains(
      const PoolSet& pool_set, std::chrono::system_clock::time_point now);

 private:
  using Key = std::pair<std::string, std::string>;

  /// The addresses of servers behind names that operators have drained or weighted, which get other
  /// ids in a process that finds other servers behind the name; and of those that have such an id
  /// already.
  std::map<Key, std::string> addresses_of_names(const PoolSet& pool_set) const;

  Weights weights_;
  Drained drained_;
  Drained awaited_;       // of these: restored, and yet to be found by `discover`
  DrainEnds drain_ends_;  // of some of these
  Ids ids_;
};

}  // namespace evenkeel
