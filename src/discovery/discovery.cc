#include "evenkeel/discovery/discovery.h"

#include <algorithm>
#include <set>
#include <utility>

#include "discovery/found_list.h"
#include "discovery/source.h"
#include "evenkeel/config/address.h"

namespace evenkeel {
namespace {

/// True if both have the same backends, however often and by which API server they are asked for.
bool finds_the_same(const DiscoverConfig& a, const DiscoverConfig& b) {
  return a.kubernetes == b.kubernetes && a.srv == b.srv && a.http_sd == b.http_sd &&
         a.file == b.file;
}

}  // namespace

std::shared_ptr<const Config> with_found(const std::shared_ptr<const Config>& config,
                                         const FoundBackends& found) {
  if (std::ranges::none_of(config->pools,
                           [](const PoolConfig& pool) { return pool.discover.has_value(); }))
    return config;
  auto all = std::make_shared<Config>(*config);
  for (PoolConfig& pool : all->pools) {
    const auto more = found.find(pool.name);
    if (!pool.discover || more == found.end()) continue;
    std::set<std::string> known;
    for (const BackendConfig& backend : pool.backends) known.insert(to_string(backend.address));
    for (const BackendConfig& backend : more->second) {
      if (known.insert(to_string(backend.address)).second) pool.backends.push_back(backend);
    }
  }
  return all;
}

/// A source that is followed, by what names it in the file.
struct Discovery::Followed {
  bool is_of(const Config& config, const PoolConfig& wanted) const {
    return list.pool() == wanted.name && discover == *wanted.discover &&
           (!discover.kubernetes || kubernetes == config.kubernetes) &&
           (discover.srv.empty() || dns == config.dns);
  }

  DiscoverConfig discover;
  KubernetesConfig kubernetes;
  DnsConfig dns;
  FoundList list;
  DiscoverySourcePtr source = nullptr;  // reads into `list`
};

Discovery::Discovery(Loop& loop, DiscoveryEnvironment environment, std::uint64_t seed,
                     std::function<void()> changed)
    : loop_(loop),
      environment_(std::move(environment)),
      rng_(seed),
      changed_(std::move(changed)),
      listed_(loop) {}

Discovery::~Discovery() = default;

Discovery::Followed* Discovery::find(const Config& config, const PoolConfig& pool) const {
  const auto found =
      std::ranges::find_if(followed_, [&](const auto& each) { return each->is_of(config, pool); });
  return found == followed_.end() ? nullptr : found->get();
}

void Discovery::follow(const Config& config) {
  for (const PoolConfig& pool : config.pools) {
    if (pool.discover && find(config, pool) == nullptr) add(config, pool);
  }
}

void Discovery::add(const Config& config, const PoolConfig& pool) {
  const DiscoverConfig& discover = *pool.discover;
  const auto changed = [this] {
    listed_.raise();
    changed_();
  };
  const auto before = std::ranges::find_if(followed_, [&](const auto& each) {
    return each->list.pool() == pool.name && finds_the_same(each->discover, discover);
  });
  auto added = std::make_unique<Followed>(Followed{.discover = discover,
                                                   .kubernetes = config.kubernetes,
                                                   .dns = config.dns,
                                                   .list = {loop_, pool.name, changed}});
  if (before != followed_.end()) added->list.inherit((*before)->list);
  const SourceParts parts{loop_, environment_, added->list, rng_()};
  if (discover.kubernetes) {
    added->source = make_kubernetes_source(parts, *discover.kubernetes, config.kubernetes);
  } else if (!discover.srv.empty()) {
    added->source = make_srv_source(parts, discover.srv, config.dns);
  } else if (!discover.http_sd.empty()) {
    added->source = make_http_source(parts, discover.http_sd, discover.interval);
  } else {
    added->source = make_file_source(parts, discover.file);
  }
  followed_.push_back(std::move(added));
}

void Discovery::follow_only(const Config& config) {
  follow(config);
  std::erase_if(followed_, [&](const auto& each) {
    return std::ranges::none_of(config.pools, [&](const PoolConfig& pool) {
      return pool.discover && each->is_of(config, pool);
    });
  });
}

Task<void> Discovery::listed(std::shared_ptr<const Config> config, Instant deadline) {
  const auto lacks_list = [&](const PoolConfig& pool) {
    if (!pool.discover) return false;
    const Followed* const source = find(*config, pool);
    return source != nullptr && !source->list.backends();
  };
  while (loop_.read_clock() < deadline && std::ranges::any_of(config->pools, lacks_list)) {
    co_await listed_.wait(deadline);
  }
}

FoundBackends Discovery::found(const Config& config) const {
  FoundBackends found;
  for (const PoolConfig& pool : config.pools) {
    const Followed* const source = pool.discover ? find(config, pool) : nullptr;
    if (source != nullptr && source->list.backends()) found[pool.name] = *source->list.backends();
  }
  return found;
}

std::vector<DiscoveryStatus> Discovery::statuses(const Config& config) const {
  std::vector<DiscoveryStatus> statuses;
  for (const PoolConfig& pool : config.pools) {
    const Followed* const source = pool.discover ? find(config, pool) : nullptr;
    if (source != nullptr) statuses.push_back(source->list.status());
  }
  return statuses;
}

}  // namespace evenkeel
