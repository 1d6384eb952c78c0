// Who is in the pools with `discover`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/resolver.h"
#include "evenkeel/upstream/discovery_status.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

/// The backends that were found, by pool.
using FoundBackends = std::map<std::string, std::vector<BackendConfig>, std::less<>>;

/// The configuration with the found backends beside those of the file, which come first and count
/// where both have an address. The same object if no pool has `discover`.
std::shared_ptr<const Config> with_found(const std::shared_ptr<const Config>& config,
                                         const FoundBackends& found);

/// What sources need of the process.
struct DiscoveryEnvironment {
  NameResolver resolve;
  std::function<Task<Result<Resolver::ServiceAnswer>>(std::string name)> find_services;
  std::function<std::optional<std::string>(const std::string& name)> variable;
};

/// Follows the source of each pool with `discover`. What was found last stays while a source is
/// away, or gives a list that has lost more than half of its backends, until that is confirmed.
///
/// Thread: the loop's.
class Discovery {
 public:
  /// `changed`: called when a pool has got other backends. May not destroy this object, nor change
  /// what is followed.
  Discovery(Loop& loop, DiscoveryEnvironment environment, std::uint64_t seed,
            std::function<void()> changed);
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;
  ~Discovery();

  /// Follows the sources of this configuration too; those that are followed already go on.
  void follow(const Config& config);
  /// Follows the sources of this configuration only.
  void follow_only(const Config& config);
  /// Waits until each source of this configuration has given its list, or until the deadline.
  Task<void> listed(std::shared_ptr<const Config> config, Instant deadline);
  /// What is known of the pools of this configuration.
  FoundBackends found(const Config& config) const;
  /// How the sources of this configuration fare, in the order of its pools.
  std::vector<DiscoveryStatus> statuses(const Config& config) const;

 private:
  struct Followed;
  Followed* find(const Config& config, const PoolConfig& pool) const;
  void add(const Config& config, const PoolConfig& pool);

  Loop& loop_;
  DiscoveryEnvironment environment_;
  Rng rng_;
  std::function<void()> changed_;
  Signal listed_;
  std::vector<std::unique_ptr<Followed>> followed_;
};

}  // namespace evenkeel
