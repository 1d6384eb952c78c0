#include "evenkeel/proxy/worker_links.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace evenkeel {
namespace {

/// Links, and the name under which they are counted: both may outlive their plan.
struct LabeledLinks {
  LabeledLinks(const WorkerContext& worker, std::string_view pool, std::string_view backend,
               std::vector<Endpoint> addresses, const LinkPoolOptions& options)
      : label(worker.metrics_registry.label_index()),
        index(label.backend(pool, backend)),
        metrics(worker.metrics().backend(index)),
        links(worker.loop, std::move(addresses), options, metrics) {}
  LabelUses label;
  std::uint32_t index;
  BackendMetrics& metrics;
  LinkPool links;
};

}  // namespace

WorkerLinks::WorkerLinks(const Config& config, const PoolSet& pool_set, const WorkerContext& worker,
                         const WorkerLinks* predecessor) {
  for (std::size_t pool = 0; pool < config.pools.size(); ++pool) {
    const PoolSet::PoolEntry& entry = pool_set.pools()[pool];
    for (std::size_t i = 0; i < entry.backends.size(); ++i) {
      const PoolSet::ResolvedBackend& resolved = entry.backends[i];
      const std::pair name(config.pools[pool].name, entry.state->backends()[i]->id());
      Connected now{.addresses = resolved.addresses,
                    .options = link_options_of(config.pools[pool], resolved.config, entry.tls),
                    .links = nullptr,
                    .metrics = nullptr,
                    .index = 0};
      const Connected* before = nullptr;
      if (predecessor != nullptr) {
        const auto found = predecessor->backends_.find(name);
        if (found != predecessor->backends_.end()) before = &found->second;
      }
      const bool same =
          before != nullptr && before->addresses == now.addresses && before->options == now.options;
      if (same) {
        now.links = before->links;
        now.metrics = before->metrics;
        now.index = before->index;
      } else {
        connect(name, worker, now);
      }
      if (before != nullptr) continue_from(*before, now);
      backends_.emplace(name, std::move(now));
    }
  }
}

void WorkerLinks::connect(const std::pair<std::string, std::string>& name,
                          const WorkerContext& worker, Connected& backend) {
  const auto labeled = std::make_shared<LabeledLinks>(worker, name.first, name.second,
                                                      backend.addresses, backend.options);
  backend.links = std::shared_ptr<LinkPool>(labeled, &labeled->links);
  backend.metrics = &labeled->metrics;
  backend.index = labeled->index;
}

/// The links of the predecessor serve open requests, and are told too what follows.
void WorkerLinks::continue_from(const Connected& before, Connected& now) {
  now.max_silence = before.max_silence;
  std::copy_if(before.retired.begin(), before.retired.end(), std::back_inserter(now.retired),
               [](const auto& links) { return !links.expired(); });
  if (now.links == before.links) return;
  now.retired.push_back(before.links);
  if (now.max_silence != Duration::max()) now.links->suspect(now.max_silence);
}

std::unordered_map<const Backend*, Target> WorkerLinks::targets_of(
    const PoolSet::PoolEntry& pool) const {
  std::unordered_map<const Backend*, Target> targets;
  for (std::size_t i = 0; i < pool.backends.size(); ++i) {
    const PoolSet::ResolvedBackend& resolved = pool.backends[i];
    const Backend& backend = *pool.state->backends()[i];
    const Connected& connected = backends_.at({pool.state->spec().name, backend.id()});
    targets[&backend] = {
        .links = connected.links,
        .metrics = connected.metrics,
        .index = connected.index,
        .authorization = resolved.authorization,
        .host = resolved.host.replaces_client ? resolved.host.own : std::string_view()};
  }
  return targets;
}

std::vector<std::shared_ptr<LinkPool>> WorkerLinks::not_in(const WorkerLinks& successor) const {
  std::unordered_set<const LinkPool*> taken_over;
  for (const auto& [name, each] : successor.backends_) taken_over.insert(each.links.get());
  std::vector<std::shared_ptr<LinkPool>> left;
  for (const auto& [name, each] : backends_) {
    if (!taken_over.contains(each.links.get())) left.push_back(each.links);
  }
  return left;
}

void WorkerLinks::suspect(const std::string& pool, const std::string& backend,
                          Duration max_silence) {
  const auto found = backends_.find({pool, backend});
  if (found == backends_.end()) return;
  Connected& connected = found->second;
  connected.max_silence = max_silence;
  connected.links->suspect(max_silence);
  for (const auto& retired : connected.retired) {
    if (const auto links = retired.lock()) links->suspect(max_silence);
  }
}

}  // namespace evenkeel
