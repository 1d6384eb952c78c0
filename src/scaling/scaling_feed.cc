#include "evenkeel/scaling/scaling_feed.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

/// True if nothing that is waited for differs.
bool is_alike(const ScalingSnapshot& one, const ScalingSnapshot& other) {
  return std::ranges::equal(one.pools, other.pools, [](const auto& a, const auto& b) {
    return a.pool == b.pool && a.plan.desired == b.plan.desired;
  });
}

}  // namespace

const PoolScaling* ScalingSnapshot::find(std::string_view pool) const {
  const auto found = std::ranges::find(pools, pool, &PoolScaling::pool);
  return found == pools.end() ? nullptr : &*found;
}

ScalingFeed::Snapshot ScalingFeed::snapshot() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void ScalingFeed::publish(ScalingSnapshot next) {
  Snapshot published = std::make_shared<const ScalingSnapshot>(std::move(next));
  const std::lock_guard lock(mutex_);
  const bool changes = !is_alike(*current_, *published);
  current_ = std::move(published);
  if (changes) wake_locked();
}

void ScalingFeed::close() {
  closed_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  wake_locked();
}

/// Tells the loops. Under the lock: a watcher takes it at its end, so its loop still exists.
void ScalingFeed::wake_locked() {
  for (const auto& place : watchers_) {
    place->loop.post([place] {
      if (place->signal != nullptr) place->signal->raise();
    });
  }
}

ScalingFeed::Watcher::Watcher(ScalingFeed& feed, Loop& loop)
    : feed_(feed), signal_(loop), place_(std::make_shared<Place>(loop, &signal_)) {
  const std::lock_guard lock(feed_.mutex_);
  feed_.watchers_.push_back(place_);
}

ScalingFeed::Watcher::~Watcher() {
  place_->signal = nullptr;
  const std::lock_guard lock(feed_.mutex_);
  std::erase(feed_.watchers_, place_);
}

}  // namespace evenkeel
