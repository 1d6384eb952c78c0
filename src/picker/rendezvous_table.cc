#include "picker/rendezvous_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

// Tables of 2^16 and 2^20 slots have at least 128 slots per backend in pools of up to 512 and 8192
// backends. There are only two sizes, because a change of the size moves many keys.
constexpr std::size_t small_pool = 512;
constexpr unsigned small_bits = 16;
constexpr unsigned large_bits = 20;

constexpr std::uint64_t unowned = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t time_unit = std::uint64_t{1} << 32;

/// The arrivals of one backend: one in each interval of length 1 / weight, at a random time in the
/// interval and at a random slot.
class Arrivals {
 public:
  Arrivals(const Backend& backend, unsigned shift)
      : random_(hash_of(backend.id())),
        weight_(std::max(backend.spec().config.weight, 1u)),
        shift_(shift) {
    advance();
  }

  std::uint64_t time() const { return time_; }
  std::size_t slot() const { return slot_; }
  void advance() {
    const std::uint64_t random = random_();
    time_ = count_++ * time_unit + (random & (time_unit - 1));
    if (weight_ > 1) time_ /= weight_;
    slot_ = random >> shift_;
  }

 private:
  Rng random_;
  std::uint64_t weight_;
  unsigned shift_;
  std::uint64_t count_ = 0;
  std::uint64_t time_ = 0;
  std::size_t slot_ = 0;
};

/// Finds a table in use for the same backends, so that pools and workers share it.
class TableCache {
 public:
  std::shared_ptr<const RendezvousTable> table_for(const Backends& backends) {
    Key key;
    key.reserve(backends.size());
    for (const auto& backend : backends)
      key.emplace_back(backend->id(), backend->spec().config.weight);
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(tables_, [](const auto& each) { return each.second.expired(); });
      if (const auto found = tables_.find(key); found != tables_.end()) {
        if (auto table = found->second.lock()) return table;
      }
    }
    auto table = std::make_shared<const RendezvousTable>(backends);
    const std::lock_guard lock(mutex_);
    tables_[std::move(key)] = table;
    return table;
  }

 private:
  using Key = std::vector<std::pair<std::string, std::uint32_t>>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const RendezvousTable>> tables_;
};

}  // namespace

std::shared_ptr<const RendezvousTable> RendezvousTable::of(const Backends& backends) {
  static TableCache cache;
  return cache.table_for(backends);
}

RendezvousTable::RendezvousTable(const Backends& backends)
    : shift_(64 - (backends.size() <= small_pool ? small_bits : large_bits)) {
  if (backends.empty()) return;
  const std::size_t slots = std::size_t{1} << (64 - shift_);
  owners_.resize(slots);

  std::vector<Arrivals> arrivals;
  double weights = 0;
  for (const auto& backend : backends) {
    arrivals.emplace_back(*backend, shift_);
    weights += std::max(backend->spec().config.weight, 1u);
  }

  // Every slot is reached within about slots * ln(slots) arrivals. The length of a step does not
  // affect the owners.
  const auto step = static_cast<std::uint64_t>(static_cast<double>(slots) / weights *
                                               static_cast<double>(time_unit)) +
                    1;
  // A slot that was reached in an earlier step is settled: its owner is final. Most arrivals are at
  // settled slots, so this is one bit per slot, which fits into the CPU's cache.
  std::vector<std::uint64_t> reached(slots, unowned);
  std::vector<bool> settled(slots);
  std::vector<std::size_t> reached_now;
  std::size_t left = slots;
  for (std::uint64_t until = step; left > 0; until += step) {
    reached_now.clear();
    for (std::uint32_t index = 0; index < arrivals.size(); ++index) {
      for (Arrivals& next = arrivals[index]; next.time() < until; next.advance()) {
        if (settled[next.slot()]) continue;
        std::uint64_t& first = reached[next.slot()];
        if (next.time() >= first) continue;
        if (first == unowned) reached_now.push_back(next.slot());
        first = next.time();
        owners_[next.slot()] = index;
      }
    }
    for (const std::size_t slot : reached_now) settled[slot] = true;
    left -= reached_now.size();
  }
}

}  // namespace evenkeel
