#include "evenkeel/balance/affinity_table.h"

#include <algorithm>
#include <thread>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

// A value is the tag of the backend with its state bit, a bit for a confirmed session and, below,
// when it was last used: in seconds, modulo 2^24 (194 days).
constexpr int time_bits = 24;
constexpr int tag_shift = time_bits + 1;
constexpr std::uint64_t time_mask = (std::uint64_t{1} << time_bits) - 1;
constexpr std::uint64_t confirmed_bit = std::uint64_t{1} << time_bits;
constexpr int spins_before_yield = 64;

std::uint64_t seconds_at(Instant now) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

std::uint64_t value_of(AffinityTable::Tag tag, Instant used) {
  return tag << tag_shift | (seconds_at(used) & time_mask);
}

AffinityTable::Tag tag_in(std::uint64_t value) { return value >> tag_shift; }

bool is_confirmed(std::uint64_t value) { return (value & confirmed_bit) != 0; }

/// Workers read their clocks at different moments: one that is ahead has not used it in the future.
std::uint64_t idle_seconds(std::uint64_t value, Instant now) {
  const std::uint64_t idle = (seconds_at(now) - value) & time_mask;
  return idle > time_mask / 2 ? 0 : idle;
}

bool is_live(std::uint64_t value, Duration ttl, Instant now) {
  return std::chrono::seconds(idle_seconds(value, now)) <= ttl;
}

/// 0 is the key of no entry.
std::uint64_t key_of(std::uint64_t session) { return std::max<std::uint64_t>(mix(session), 1); }

}  // namespace

/// Held for tens of instructions. A thread that was preempted while it holds one delays only those
/// that change a pin in the same bucket.
class AffinityTable::Lock {
 public:
  explicit Lock(Bucket& bucket) : bucket_(bucket) {
    for (int spins = 0;; ++spins) {
      sequence_ = bucket_.sequence.load(std::memory_order_relaxed);
      const bool free = sequence_ % 2 == 0;
      if (free && bucket_.sequence.compare_exchange_weak(sequence_, sequence_ + 1,
                                                         std::memory_order_acq_rel)) {
        break;
      }
      if (spins >= spins_before_yield) std::this_thread::yield();
    }
    std::atomic_thread_fence(std::memory_order_release);  // before what is changed
  }
  Lock(const Lock&) = delete;
  ~Lock() { bucket_.sequence.store(sequence_ + 2, std::memory_order_release); }

 private:
  Bucket& bucket_;
  std::uint64_t sequence_ = 0;
};

AffinityTable::Tag AffinityTable::tag_of(std::string_view backend_id) {
  constexpr Tag least = 2;
  return std::max<Tag>(hash_of(backend_id) >> tag_shift & ~state_bit, least);
}

/// What `look` reads of a bucket, all of it between two changes.
template <class Look>
auto AffinityTable::read(const Bucket& bucket, const Look& look) {
  for (int spins = 0;; ++spins) {
    const std::uint64_t sequence = bucket.sequence.load(std::memory_order_acquire);
    const auto found = look();
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool locked = sequence % 2 != 0;
    if (!locked && bucket.sequence.load(std::memory_order_relaxed) == sequence) return found;
    if (spins >= spins_before_yield) std::this_thread::yield();
  }
}

/// As they were at one moment.
std::array<AffinityTable::Entry, AffinityTable::ways> AffinityTable::entries_of(
    const Bucket& bucket) {
  return read(bucket, [&bucket] {
    std::array<Entry, ways> entries;
    for (std::size_t way = 0; way < ways; ++way) {
      entries[way] = {.key = bucket.keys[way].load(std::memory_order_relaxed),
                      .value = bucket.values[way].load(std::memory_order_relaxed)};
    }
    return entries;
  });
}

AffinityTable::AffinityTable(std::uint32_t max_sessions, const AffinityTable* predecessor)
    : max_sessions_(max_sessions),
      bucket_count_((std::size_t{max_sessions} + ways - 1) / ways),
      buckets_(std::make_unique<Bucket[]>(bucket_count_)) {
  if (predecessor == nullptr) return;
  for (std::size_t i = 0; i < predecessor->bucket_count_; ++i) {
    for (const auto& [key, value] : entries_of(predecessor->buckets_[i])) {
      if (key == 0) continue;
      Bucket& bucket = bucket_of(key);
      const std::size_t way = free_place(bucket, is_confirmed(value), Duration::max(), Instant{});
      if (way < ways) put(bucket, way, key, value);
    }
  }
  const AffinityStats before = predecessor->stats();
  evictions_ = before.evictions;
  uses_[0].counts[0] = before.hits;
  uses_[0].counts[1] = before.misses;
  uses_[0].counts[2] = before.moves;
}

AffinityTable::Bucket& AffinityTable::bucket_of(std::uint64_t key) const {
  return buckets_[(key >> 32) * bucket_count_ >> 32];
}

AffinityTable::Found AffinityTable::look_up(std::uint64_t session, Duration ttl, Instant now) {
  const std::uint64_t key = key_of(session);
  Bucket& bucket = bucket_of(key);
  const auto [way, value] = read(bucket, [&bucket, key] { return look(bucket, key); });
  return way < ways ? use(bucket.values[way], value, ttl, now) : Found{};
}

/// Where the key is, and its value; `ways`: nowhere. Means something only if the bucket did not
/// change meanwhile.
std::pair<std::size_t, std::uint64_t> AffinityTable::look(const Bucket& bucket, std::uint64_t key) {
  for (std::size_t way = 0; way < ways; ++way) {
    if (bucket.keys[way].load(std::memory_order_relaxed) != key) continue;
    return {way, bucket.values[way].load(std::memory_order_relaxed)};
  }
  return {ways, 0};
}

AffinityTable::Found AffinityTable::use(std::atomic<std::uint64_t>& place, std::uint64_t value,
                                        Duration ttl, Instant now) {
  if (!is_live(value, ttl, now)) return {};
  if (idle_seconds(value, now) > 0) {
    // Another entry with this very value may have taken the place: then that one counts as used.
    std::uint64_t found = value;
    const std::uint64_t used = value_of(tag_in(value), now) | (value & confirmed_bit);
    place.compare_exchange_strong(found, used, std::memory_order_relaxed);
  }
  return {.tag = tag_in(value), .confirmed = is_confirmed(value)};
}

AffinityTable::Tag AffinityTable::pin(std::uint64_t session, Tag before, Tag backend, Duration ttl,
                                      Instant now, Duration idle) {
  const std::uint64_t key = key_of(session);
  const std::uint64_t value = value_of(backend, now - idle);
  Bucket& bucket = bucket_of(key);
  const Lock lock(bucket);
  for (std::size_t way = 0; way < ways; ++way) {
    if (bucket.keys[way].load(std::memory_order_relaxed) != key) continue;
    const std::uint64_t found = bucket.values[way].load(std::memory_order_relaxed);
    const Tag pinned = is_live(found, ttl, now) ? tag_in(found) : none;
    if (pinned != before) return pinned;
    const std::uint64_t confirmed = pinned == none ? 0 : found & confirmed_bit;
    bucket.values[way].store(value | confirmed, std::memory_order_release);
    return backend;
  }
  if (before != none) return none;
  const std::size_t way = free_place(bucket, false, ttl, now);
  if (way < ways) put(bucket, way, key, value);
  return backend;
}

void AffinityTable::confirm(std::uint64_t session, Tag backend, Duration ttl, Instant now) {
  const std::uint64_t key = key_of(session);
  const std::uint64_t value = value_of(backend, now) | confirmed_bit;
  Bucket& bucket = bucket_of(key);
  const Lock lock(bucket);
  for (std::size_t way = 0; way < ways; ++way) {
    if (bucket.keys[way].load(std::memory_order_relaxed) != key) continue;
    const std::uint64_t found = bucket.values[way].load(std::memory_order_relaxed);
    const bool moved = tag_in(found) != backend && is_live(found, ttl, now);
    if (!moved) bucket.values[way].store(value, std::memory_order_release);
    return;
  }
  put(bucket, free_place(bucket, true, ttl, now), key, value);
}

void AffinityTable::learn(std::uint64_t session, Tag backend, Duration ttl, Instant now) {
  const auto [before, confirmed] = look_up(session, ttl, now);
  if (before == backend && confirmed) return;
  if (before != none && before != backend) pin(session, before, backend, ttl, now);
  confirm(session, backend, ttl, now);
}

void AffinityTable::forget(std::uint64_t session) {
  const std::uint64_t key = key_of(session);
  Bucket& bucket = bucket_of(key);
  const Lock lock(bucket);
  for (std::size_t way = 0; way < ways; ++way) {
    if (bucket.keys[way].load(std::memory_order_relaxed) == key) clear(bucket, way);
  }
}

std::vector<AffinityTable::Saved> AffinityTable::saved(Duration ttl, Instant now) const {
  std::vector<Saved> pins;
  pins.reserve(sessions_.load(std::memory_order_relaxed));
  for (std::size_t i = 0; i < bucket_count_; ++i) {
    for (const auto& [key, value] : entries_of(buckets_[i])) {
      if (key == 0 || !is_confirmed(value) || !is_live(value, ttl, now)) continue;
      pins.push_back({.key = key,
                      .tag = tag_in(value),
                      .idle = std::chrono::seconds(idle_seconds(value, now))});
    }
  }
  return pins;
}

void AffinityTable::restore(std::span<const Saved> pins, Duration ttl, Instant now) {
  for (const Saved& each : pins) {
    if (each.key == 0 || each.tag == none || each.idle > ttl) continue;
    Bucket& bucket = bucket_of(each.key);
    const Lock lock(bucket);
    if (look(bucket, each.key).first < ways) continue;
    const std::uint64_t value = value_of(each.tag, now - each.idle) | confirmed_bit;
    put(bucket, free_place(bucket, true, ttl, now), each.key, value);
  }
}

/// A free place, which may be that of a session whose time is over; if there is none, that of the
/// one which was idle longest: of those that are not confirmed, else of all. `ways`: all others are
/// confirmed, and this one is not. REQUIRES: the bucket is locked.
std::size_t AffinityTable::free_place(Bucket& bucket, bool for_confirmed, Duration ttl,
                                      Instant now) {
  // A confirmed session counts as idle for less than any other.
  constexpr std::uint64_t unconfirmed = time_mask + 1;
  std::size_t idlest = ways;
  std::uint64_t most = 0;
  for (std::size_t way = 0; way < ways; ++way) {
    if (bucket.keys[way].load(std::memory_order_relaxed) == 0) return way;
    const std::uint64_t value = bucket.values[way].load(std::memory_order_relaxed);
    if (!is_live(value, ttl, now)) {
      clear(bucket, way);
      return way;
    }
    const std::uint64_t idle = idle_seconds(value, now) + (is_confirmed(value) ? 0 : unconfirmed);
    if (idlest < ways && idle <= most) continue;
    idlest = way;
    most = idle;
  }
  evictions_.fetch_add(1, std::memory_order_relaxed);
  if (!for_confirmed && most < unconfirmed) return ways;
  clear(bucket, idlest);
  return idlest;
}

/// REQUIRES: the bucket is locked, and the place free.
void AffinityTable::put(Bucket& bucket, std::size_t way, std::uint64_t key, std::uint64_t value) {
  bucket.values[way].store(value, std::memory_order_release);
  bucket.keys[way].store(key, std::memory_order_release);
  sessions_.fetch_add(1, std::memory_order_relaxed);
}

/// REQUIRES: the bucket is locked.
void AffinityTable::clear(Bucket& bucket, std::size_t way) {
  bucket.keys[way].store(0, std::memory_order_relaxed);
  sessions_.fetch_sub(1, std::memory_order_relaxed);
}

void AffinityTable::release(std::span<const Tag> backends, std::span<std::uint64_t> counts) {
  for (std::size_t i = 0; i < bucket_count_; ++i) {
    Bucket& bucket = buckets_[i];
    for (std::size_t way = 0; way < ways; ++way) {
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Lock lock(bucket);
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Tag tag = tag_in(bucket.values[way].load(std::memory_order_relaxed));
      const auto found = std::find(backends.begin(), backends.end(), tag);
      if (found == backends.end()) continue;
      clear(bucket, way);
      ++counts[static_cast<std::size_t>(found - backends.begin())];
    }
  }
}

void AffinityTable::expire(double share, Duration ttl, Instant now) {
  const auto count = static_cast<std::size_t>(static_cast<double>(bucket_count_) * share) + 1;
  for (std::size_t i = 0; i < std::min(count, bucket_count_); ++i) {
    Bucket& bucket = buckets_[next_to_expire_];
    next_to_expire_ = (next_to_expire_ + 1) % bucket_count_;
    for (std::size_t way = 0; way < ways; ++way) {
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Lock lock(bucket);
      const bool idle = bucket.keys[way].load(std::memory_order_relaxed) != 0 &&
                        !is_live(bucket.values[way].load(std::memory_order_relaxed), ttl, now);
      if (idle) clear(bucket, way);
    }
  }
}

void AffinityTable::count(std::uint64_t session, Use use) {
  uses_[session % uses_.size()].counts[static_cast<std::size_t>(use)].fetch_add(
      1, std::memory_order_relaxed);
}

AffinityStats AffinityTable::stats() const {
  AffinityStats stats{.sessions = sessions_.load(std::memory_order_relaxed),
                      .evictions = evictions_.load(std::memory_order_relaxed)};
  const auto sum = [this](Use use) {
    std::uint64_t total = 0;
    for (const Uses& uses : uses_) {
      total += uses.counts[static_cast<std::size_t>(use)].load(std::memory_order_relaxed);
    }
    return total;
  };
  stats.hits = sum(Use::hit);
  stats.misses = sum(Use::miss);
  stats.moves = sum(Use::move);
  return stats;
}

}  // namespace evenkeel
