#include "evenkeel/pool/affinity_table.h"

#include <algorithm>
#include <thread>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "pool/tag_counts.h"

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

/// The entries as they were at one moment.
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

/// The buckets of one size.
struct AffinityTable::Buckets {
  explicit Buckets(std::uint32_t max)
      : max_sessions(max),
        count((std::size_t{max} + ways - 1) / ways),
        owner(new Bucket[count]()),
        all(owner.get()) {}

  Bucket& of(std::uint64_t key) const { return all[(key >> 32) * count >> 32]; }
  std::size_t free_place(Bucket& bucket, bool for_confirmed, Duration ttl, Instant now,
                         std::atomic<std::uint64_t>& evictions);
  void clear(Bucket& bucket, std::size_t way);
  void put(Bucket& bucket, std::size_t way, std::uint64_t key, std::uint64_t value);

  const std::uint32_t max_sessions;
  const std::size_t count;
  Storage former;                   // without its memory: a thread may still read the rest
  std::shared_ptr<Bucket[]> owner;  // null: the table has moved on
  Bucket* const all;
  std::size_t next_to_expire = 0;
  alignas(64) std::atomic<std::uint64_t> sessions{0};  // written when one begins or ends
};

AffinityTable::AffinityTable(std::uint32_t max_sessions)
    : storage_(std::make_shared<Buckets>(max_sessions)) {
  present_.store(storage_.get(), std::memory_order_release);
}

AffinityTable::Storage AffinityTable::allocate(std::uint32_t max_sessions) {
  return std::make_shared<Buckets>(max_sessions);
}

void AffinityTable::move_to(Storage storage) {
  const Buckets& before = present();
  copy_missing(before, *storage, true);
  use_storage(std::move(storage));
  // Sessions that were pinned while the others were copied.
  copy_missing(before, present(), false);
}

void AffinityTable::use_storage(Storage storage) {
  former_ = std::move(storage_->owner);
  storage->former = std::move(storage_);
  storage_ = std::move(storage);
  present_.store(storage_.get(), std::memory_order_release);
}

/// `evicts`: a session takes the place of another one where there is no free one.
void AffinityTable::copy_missing(const Buckets& from, Buckets& to, bool evicts) {
  std::atomic<std::uint64_t> evictions{0};  // for lack of room that was not asked for
  for (std::size_t i = 0; i < from.count; ++i) {
    for (const auto& [key, value] : entries_of(from.all[i])) {
      if (key == 0) continue;
      Bucket& bucket = to.of(key);
      const Lock lock(bucket);
      if (look(bucket, key).first < ways) continue;
      if (!evicts && look(bucket, 0).first == ways) continue;
      const std::size_t way =
          to.free_place(bucket, is_confirmed(value), Duration::max(), Instant{}, evictions);
      if (way < ways) to.put(bucket, way, key, value);
    }
  }
}

void AffinityTable::close() { use_storage(allocate(1)); }

std::uint32_t AffinityTable::max_sessions() const { return present().max_sessions; }

AffinityTable::Found AffinityTable::look_up(std::uint64_t session, Duration ttl, Instant now) {
  const std::uint64_t key = key_of(session);
  Bucket& bucket = present().of(key);
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
  Buckets& buckets = present();
  Bucket& bucket = buckets.of(key);
  const Lock lock(bucket);
  if (const auto [way, found] = look(bucket, key); way < ways) {
    const Tag pinned = is_live(found, ttl, now) ? tag_in(found) : none;
    if (pinned != before) return pinned;
    const std::uint64_t confirmed = pinned == none ? 0 : found & confirmed_bit;
    bucket.values[way].store(value | confirmed, std::memory_order_release);
    return backend;
  }
  if (before != none) return none;
  const std::size_t way = buckets.free_place(bucket, false, ttl, now, evictions_);
  if (way < ways) buckets.put(bucket, way, key, value);
  return backend;
}

void AffinityTable::confirm(std::uint64_t session, Tag backend, Duration ttl, Instant now) {
  const std::uint64_t key = key_of(session);
  const std::uint64_t value = value_of(backend, now) | confirmed_bit;
  Buckets& buckets = present();
  Bucket& bucket = buckets.of(key);
  const Lock lock(bucket);
  if (const auto [way, found] = look(bucket, key); way < ways) {
    const bool moved = tag_in(found) != backend && is_live(found, ttl, now);
    if (!moved) bucket.values[way].store(value, std::memory_order_release);
    return;
  }
  buckets.put(bucket, buckets.free_place(bucket, true, ttl, now, evictions_), key, value);
}

void AffinityTable::learn(std::uint64_t session, Tag backend, Duration ttl, Instant now) {
  const auto [before, confirmed] = look_up(session, ttl, now);
  if (before == backend && confirmed) return;
  if (before != none && before != backend) pin(session, before, backend, ttl, now);
  confirm(session, backend, ttl, now);
}

void AffinityTable::forget(std::uint64_t session) {
  const std::uint64_t key = key_of(session);
  Buckets& buckets = present();
  Bucket& bucket = buckets.of(key);
  const Lock lock(bucket);
  if (const std::size_t way = look(bucket, key).first; way < ways) buckets.clear(bucket, way);
}

std::vector<AffinityTable::Saved> AffinityTable::saved(Duration ttl, Instant now) const {
  std::vector<Saved> pins;
  const Buckets& buckets = present();
  pins.reserve(buckets.sessions.load(std::memory_order_relaxed));
  for (std::size_t i = 0; i < buckets.count; ++i) {
    for (const auto& [key, value] : entries_of(buckets.all[i])) {
      if (key == 0 || !is_live(value, ttl, now)) continue;
      pins.push_back({.key = key,
                      .tag = tag_in(value),
                      .idle = std::chrono::seconds(idle_seconds(value, now)),
                      .confirmed = is_confirmed(value)});
    }
  }
  return pins;
}

void AffinityTable::restore(std::span<const Saved> pins, Duration ttl, Instant now) {
  Buckets& buckets = present();
  for (const Saved& each : pins) {
    if (each.key == 0 || each.tag == none || each.idle > ttl) continue;
    Bucket& bucket = buckets.of(each.key);
    const Lock lock(bucket);
    if (look(bucket, each.key).first < ways) continue;
    const std::uint64_t value =
        value_of(each.tag, now - each.idle) | (each.confirmed ? confirmed_bit : 0);
    const std::size_t way = buckets.free_place(bucket, each.confirmed, ttl, now, evictions_);
    if (way < ways) buckets.put(bucket, way, each.key, value);
  }
}

/// A free place, which may be that of a session whose time is over; if there is none, that of the
/// one which was idle longest: of those that are not confirmed, else of all. `ways`: all others are
/// confirmed, and this one is not. REQUIRES: the bucket is locked.
std::size_t AffinityTable::Buckets::free_place(Bucket& bucket, bool for_confirmed, Duration ttl,
                                               Instant now, std::atomic<std::uint64_t>& evictions) {
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
  evictions.fetch_add(1, std::memory_order_relaxed);
  if (!for_confirmed && most < unconfirmed) return ways;
  clear(bucket, idlest);
  return idlest;
}

/// REQUIRES: the bucket is locked, and the place free.
void AffinityTable::Buckets::put(Bucket& bucket, std::size_t way, std::uint64_t key,
                                 std::uint64_t value) {
  bucket.values[way].store(value, std::memory_order_release);
  bucket.keys[way].store(key, std::memory_order_release);
  sessions.fetch_add(1, std::memory_order_relaxed);
}

/// REQUIRES: the bucket is locked.
void AffinityTable::Buckets::clear(Bucket& bucket, std::size_t way) {
  bucket.keys[way].store(0, std::memory_order_relaxed);
  sessions.fetch_sub(1, std::memory_order_relaxed);
}

void AffinityTable::release(std::span<const Tag> backends, std::span<std::uint64_t> counts) {
  Buckets& buckets = present();
  for (std::size_t i = 0; i < buckets.count; ++i) {
    Bucket& bucket = buckets.all[i];
    for (std::size_t way = 0; way < ways; ++way) {
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Lock lock(bucket);
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Tag tag = tag_in(bucket.values[way].load(std::memory_order_relaxed));
      const auto found = std::find(backends.begin(), backends.end(), tag);
      if (found == backends.end()) continue;
      buckets.clear(bucket, way);
      ++counts[static_cast<std::size_t>(found - backends.begin())];
    }
  }
}

void AffinityTable::expire(double share, Duration ttl, Instant now) {
  Buckets& buckets = present();
  const auto count = static_cast<std::size_t>(static_cast<double>(buckets.count) * share) + 1;
  for (std::size_t i = 0; i < std::min(count, buckets.count); ++i) {
    Bucket& bucket = buckets.all[buckets.next_to_expire];
    buckets.next_to_expire = (buckets.next_to_expire + 1) % buckets.count;
    for (std::size_t way = 0; way < ways; ++way) {
      if (bucket.keys[way].load(std::memory_order_relaxed) == 0) continue;
      const Lock lock(bucket);
      const bool idle = bucket.keys[way].load(std::memory_order_relaxed) != 0 &&
                        !is_live(bucket.values[way].load(std::memory_order_relaxed), ttl, now);
      if (idle) buckets.clear(bucket, way);
    }
  }
}

AffinityTable::Listing AffinityTable::list(std::size_t max, Duration ttl, Instant now) const {
  const auto by_idle = [](const Saved& a, const Saved& b) { return a.idle < b.idle; };
  Listing listing;
  std::vector<Saved>& newest = listing.newest;  // a heap, with the idlest on top
  TagCounts counts;
  const Buckets& buckets = present();
  for (std::size_t i = 0; i < buckets.count; ++i) {
    for (const auto& [key, value] : entries_of(buckets.all[i])) {
      if (key == 0 || !is_live(value, ttl, now)) continue;
      counts.add(tag_in(value) & ~state_bit);
      const std::chrono::seconds idle(idle_seconds(value, now));
      if (max == 0 || (newest.size() == max && newest.front().idle <= idle)) continue;
      if (newest.size() == max) {
        std::ranges::pop_heap(newest, by_idle);
        newest.pop_back();
      }
      newest.push_back(
          {.key = key, .tag = tag_in(value), .idle = idle, .confirmed = is_confirmed(value)});
      std::ranges::push_heap(newest, by_idle);
    }
  }
  std::ranges::sort_heap(newest, by_idle);
  listing.by_backend = counts.totals();
  return listing;
}

void AffinityTable::count_move(std::uint64_t session, Tag from, Tag to, Instant now) {
  count(session, Use::move);
  if (moves_in_use_.test_and_set(std::memory_order_acquire)) return;
  moves_[next_move_++ % max_moves] = {.key = key_of(session), .from = from, .to = to, .time = now};
  moves_in_use_.clear(std::memory_order_release);
}

std::vector<AffinityTable::Move> AffinityTable::moves() const {
  std::vector<Move> moves;
  moves.reserve(max_moves);
  while (moves_in_use_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  for (std::size_t i = 1; i <= max_moves; ++i) {
    const Move& move = moves_[(next_move_ + max_moves - i) % max_moves];
    if (move.key != 0) moves.push_back(move);
  }
  moves_in_use_.clear(std::memory_order_release);
  return moves;
}

void AffinityTable::count(std::uint64_t session, Use use) {
  uses_[session % uses_.size()].counts[static_cast<std::size_t>(use)].fetch_add(
      1, std::memory_order_relaxed);
}

std::uint64_t AnswerPins::key_of_id(std::string_view id) {
  constexpr std::uint64_t salt = 0x6a09e667f3bcc909;
  return hash_of(id) ^ salt;
}

AffinityStats AffinityTable::stats() const {
  AffinityStats stats{.sessions = present().sessions.load(std::memory_order_relaxed),
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
