#include "evenkeel/proxy/worker_links.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace evenkeel {

/// Links, and the name under which they are counted: both may outlive their plan.
struct WorkerLinks::LabeledLinks {
  LabeledLinks(const WorkerContext& worker, const BackendName& name, std::vector<Endpoint> to,
               const LinkPoolOptions& with)
      : addresses(std::move(to)),
        options(with),
        label(worker.metrics_registry.label_index()),
        index(label.backend(name.first, name.second)),
        endpoint(addresses.empty() ? "" : addresses.front().text()),
        metrics(worker.metrics().backend(index)),
        pool(worker.loop, addresses, options, metrics) {}

  const std::vector<Endpoint> addresses;
  const LinkPoolOptions options;
  LabelUses label;
  std::uint32_t index;
  const std::string endpoint;
  BackendMetrics& metrics;
  LinkPool pool;
};

WorkerLinks::WorkerLinks(const Config& config, const PoolSet& pool_set, const WorkerContext& worker,
                         const WorkerLinks* predecessor) {
  for (std::size_t number = 0; number < config.pools.size(); ++number) {
    const PoolConfig& pool = config.pools[number];
    const PoolSet::PoolEntry& entry = pool_set.pools()[number];
    for (std::size_t i = 0; i < entry.backends.size(); ++i) {
      const std::vector<Endpoint>& addresses = entry.backends[i].addresses;
      const LinkPoolOptions options = link_options_of(pool, entry.backends[i].config, entry.tls);
      const BackendName name(pool.name, entry.state->backends()[i]->id());
      const Connected* const before = predecessor == nullptr ? nullptr : predecessor->find(name);
      const bool same = before != nullptr && before->links->addresses == addresses &&
                        before->links->options == options;
      Connected& now = backends_[name];
      now.links =
          same ? before->links : std::make_shared<LabeledLinks>(worker, name, addresses, options);
      if (before != nullptr) continue_from(*before, now);
    }
  }
}

/// The backend of this name; null if the plan has none.
const WorkerLinks::Connected* WorkerLinks::find(const BackendName& name) const {
  const auto found = backends_.find(name);
  return found == backends_.end() ? nullptr : &found->second;
}

/// The links of the predecessor serve open requests, and are told too what follows.
void WorkerLinks::continue_from(const Connected& before, Connected& now) {
  now.max_silence = before.max_silence;
  std::copy_if(before.retired.begin(), before.retired.end(), std::back_inserter(now.retired),
               [](const auto& links) { return !links.expired(); });
  if (now.links == before.links) return;
  now.retired.push_back(before.links);
  if (now.max_silence != Duration::max()) now.links->pool.suspect(now.max_silence);
}

std::unordered_map<const Backend*, BackendAccess> WorkerLinks::backends_of(
    const PoolSet::PoolEntry& pool) const {
  std::unordered_map<const Backend*, BackendAccess> backends;
  for (std::size_t i = 0; i < pool.backends.size(); ++i) {
    const PoolSet::ResolvedBackend& resolved = pool.backends[i];
    const Backend& backend = *pool.state->backends()[i];
    const auto& links = backends_.at({pool.state->config().name, backend.id()}).links;
    backends[&backend] = {
        .links = std::shared_ptr<LinkPool>(links, &links->pool),
        .metrics = &links->metrics,
        .index = links->index,
        .endpoint = links->endpoint,
        .key = resolved.key.empty() ? nullptr : &resolved.key,
        .host = resolved.host.replaces_client ? resolved.host.own : std::string_view(),
        .is_hosted = pool.state->config().hosted};
  }
  return backends;
}

std::vector<std::shared_ptr<LinkPool>> WorkerLinks::not_in(const WorkerLinks& successor) const {
  std::unordered_set<const LabeledLinks*> taken_over;
  for (const auto& [name, each] : successor.backends_) taken_over.insert(each.links.get());
  std::vector<std::shared_ptr<LinkPool>> left;
  for (const auto& [name, each] : backends_) {
    if (!taken_over.contains(each.links.get())) left.emplace_back(each.links, &each.links->pool);
  }
  return left;
}

void WorkerLinks::suspect(const std::string& pool, const std::string& backend,
                          Duration max_silence) {
  const auto found = backends_.find({pool, backend});
  if (found == backends_.end()) return;
  Connected& connected = found->second;
  connected.max_silence = max_silence;
  connected.links->pool.suspect(max_silence);
  for (const auto& retired : connected.retired) {
    if (const auto links = retired.lock()) links->pool.suspect(max_silence);
  }
}

}  // namespace evenkeel
