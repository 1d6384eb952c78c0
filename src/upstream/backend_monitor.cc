#include "evenkeel/upstream/backend_monitor.h"

#include <algorithm>

#include "upstream/descriptor_budget.h"
#include "upstream/monitored_backend.h"

namespace evenkeel {
namespace {

/// How long a start waits for the first check of a backend that was down before.
constexpr Duration max_wait_for_down = std::chrono::seconds(1);

}  // namespace

BackendMonitor::BackendMonitor(Loop& loop, std::uint64_t seed, NameResolver resolve,
                               OnSuspicion on_suspicion)
    : loop_(loop),
      rng_(seed),
      exporters_(std::make_unique<GpuExporters>(loop, std::move(resolve), rng_())),
      on_suspicion_(std::move(on_suspicion)),
      descriptor_budget_(std::make_unique<DescriptorBudget>()),
      first_result_(loop),
      status_changed_(loop) {
  run_ = run();
}

BackendMonitor::~BackendMonitor() { run_.drop(); }

void BackendMonitor::update(std::vector<MonitorSpec> specs, std::size_t max_client_connections) {
  const bool keeps_links = descriptor_budget_->may_keep_links(specs.size(), max_client_connections);
  std::map<Key, Entry> entries;
  for (MonitorSpec& spec : specs) {
    spec.access.keeps_links = keeps_links;
    Key key{spec.pool, spec.backend->id()};
    const auto known = entries_.find(key);
    if (known != entries_.end()) {
      known->second.backend->update(std::move(spec));
      entries.emplace(std::move(key), std::move(known->second));
      continue;
    }
    const bool was_down = spec.was_down;
    auto backend = std::make_unique<MonitoredBackend>(
        loop_, rng_(), std::move(spec), *exporters_,
        [this] {
          first_result_.raise();
          status_changed_.raise();
        },
        [this, key](Duration max_silence) { on_suspicion_(key.first, key.second, max_silence); });
    entries.emplace(std::move(key), Entry{.backend = std::move(backend), .was_down = was_down});
  }
  entries_ = std::move(entries);
  membership_changed_ = true;
  publish_changes();
}

bool BackendMonitor::all_have_first_result(bool also_if_down) const {
  return std::ranges::all_of(entries_, [&](const auto& item) {
    const Entry& entry = item.second;
    return entry.backend->has_first_result() || (entry.was_down && !also_if_down);
  });
}

Task<void> BackendMonitor::wait_for_first_results(Instant deadline) {
  const Instant patience = loop_.now() + max_wait_for_down;
  while (loop_.now() < deadline) {
    const bool patient = loop_.now() < patience;
    if (all_have_first_result(patient)) break;
    co_await first_result_.wait(patient ? std::min(patience, deadline) : deadline);
  }
  publish_changes();
}

std::shared_ptr<const MonitorSnapshot> BackendMonitor::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

Task<void> BackendMonitor::run() {
  while (true) {
    co_await status_changed_.wait(loop_.now() + publish_interval);
    std::uint64_t blocked_locally = 0;
    for (const auto& [key, entry] : entries_) {
      entry.backend->check_triggers();
      blocked_locally += entry.backend->blocked_locally();
    }
    descriptor_budget_->note_blocked(blocked_locally, loop_.now());
    publish_changes();
  }
}

/// Publishes a snapshot if anything has changed. It shares the entries of unchanged backends with
/// the previous one.
void BackendMonitor::publish_changes() {
  bool changed = std::exchange(membership_changed_, false);
  for (auto& [key, entry] : entries_) {
    const std::uint64_t revision = entry.backend->revision();
    if (entry.status != nullptr && entry.revision == revision) continue;
    entry.status = std::make_shared<const BackendStatus>(entry.backend->status());
    entry.revision = revision;
    changed = true;
  }
  if (!changed) return;
  std::vector<MonitorSnapshot::Entry> backends;
  backends.reserve(entries_.size());
  for (const auto& item : entries_) backends.push_back(item.second.status);
  auto snapshot = std::make_shared<const MonitorSnapshot>(std::move(backends));
  const std::lock_guard lock(mutex_);
  snapshot_.swap(snapshot);  // the old one is freed after the lock
}

}  // namespace evenkeel
